"""Plans a job: groups the partitions of its inputs into tasks, and the tasks into containers. The plan is a `JobModel`.

1. A grouper decides which partitions form a task. Broadcast partitions join every task and never form one alone.
2. Task names and changelog partitions depend on the inputs alone, never on the container count. So a job may get more
   or fewer containers, and every task finds its state again.
3. Inputs may get more partitions while the job keeps state, by Samza's rule (SEP-5). A key's state lies with the task
   of `hash(key) % count`. If the count becomes a multiple of the old one, the messages of partition `p` would have gone
   to partition `p % old count`: the new partitions go to the old tasks, and no state has to move. Any other count would
   send keys to tasks without their state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import AnyTask, CopartitionedTask
from samzapy.config.job import JobConfig, never_inputs
from samzapy.config.patterns import InputPattern
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.stream import is_pattern, is_start_given
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, RestoreError, raise_if_any
from samzapy.strict_json import Natural, convert


@dataclass(frozen=True, slots=True)
class TaskModel:
    """One task: its name, its partitions (broadcast ones included), and the partition it owns in every changelog.
    `late` partitions came after the job's first start: they begin at their oldest record.

    It has slots, since a driver may have twenty thousand: each would get a `__dict__` when it is sent to its container.
    """

    name: str
    ssps: frozenset[SystemStreamPartition]
    changelog_partition: int
    late: frozenset[SystemStreamPartition] = frozenset()


@dataclass(frozen=True)
class ContainerModel:
    """One container: its id (`0`, `1`, ...), its tasks in order of name, and the number of tasks in all containers of
    the job (0: these are all)."""

    id: str
    tasks: tuple[TaskModel, ...]
    tasks_of_job: int = 0

    @property
    def ssps(self) -> frozenset[SystemStreamPartition]:
        return frozenset().union(*(task.ssps for task in self.tasks))


@dataclass(frozen=True)
class JobModel:
    """All containers, in order of id. `standbys` (`0-1`: the first of container `0`) keep copies of the state of the
    same tasks, and run none of them."""

    containers: tuple[ContainerModel, ...]
    standbys: tuple[ContainerModel, ...] = ()

    @property
    def tasks(self) -> tuple[TaskModel, ...]:
        return tuple(sorted((t for c in self.containers for t in c.tasks), key=lambda t: t.changelog_partition))

    @property
    def changelog_partition_count(self) -> int:
        """The number of partitions that the job's changelogs need."""
        return max((task.changelog_partition for task in self.tasks), default=-1) + 1

    def container(self, container_id: str) -> ContainerModel:
        """The container, or standby container, of that id. Raises StopIteration."""
        return next(c for c in (*self.containers, *self.standbys) if c.id == container_id)

    def standbys_of(self, container_id: str) -> tuple[str, ...]:
        """The ids of a container's standbys."""
        return tuple(c.id for c in self.standbys if active_of(c.id) == container_id)


def active_of(container_id: str) -> str:
    """The active container of the standby with that id; any other id is returned unchanged."""
    return container_id.partition("-")[0]


def replica_of(container_id: str) -> int:
    """The number of the standby; 0 for a container that runs its tasks."""
    return int(container_id.partition("-")[2] or 0)


@dataclass(frozen=True)
class InputPartitions:
    """The partition counts of an input: when the job `first` read it, the count by which its tasks are `grouped`, and
    the `last` one. Partitions beyond the first count are new to the job, so it reads them from their beginning."""

    first: Natural
    grouped: Natural
    last: Natural

    @property
    def expanded(self) -> bool:
        """Whether there are partitions that form no separate tasks."""
        return self.last > self.grouped


def follow_growth(
    known: Mapping[SystemStream, InputPartitions],
    counts: Mapping[SystemStream, int],
    *,
    keeps_state: bool,
    late: Collection[SystemStream] = (),
) -> dict[SystemStream, InputPartitions]:
    """The partition counts of every input that the job has ever had, with the present `counts` of its inputs.

    A job that `keeps_state` keeps its tasks, and so does one that has expanded before. All partitions of a `late` input
    count as added after the job's first start. Raises EnvironmentFailure for a count that is not a multiple of the
    count by which the tasks are grouped.
    """
    now = dict(known)
    for stream, count in counts.items():
        before = known.get(stream)
        if before is None or not before.grouped:
            now[stream] = InputPartitions(0 if stream in late else count, count, count)
            continue
        grouped = before.grouped if keeps_state or before.expanded else count
        if count % grouped:
            raise EnvironmentFailure(
                f"{stream} has {count} partitions, the job's state is by {grouped}: expected {grouped} or a multiple "
                "of it, which leaves every key with its task; for any other count start a new job (job.id), or delete "
                "the checkpoint topic and the changelogs"
            )
        now[stream] = InputPartitions(min(before.first, count), grouped, count)
    return now


def home(ssp: SystemStreamPartition, inputs: Mapping[SystemStream, InputPartitions]) -> SystemStreamPartition:
    """The partition with the task of `ssp`: itself, unless it came with an expansion."""
    known = inputs.get(ssp.system_stream)
    if known is None or ssp.partition < known.grouped:
        return ssp
    return SystemStreamPartition(ssp.system, ssp.stream, ssp.partition % known.grouped)


def is_late(ssp: SystemStreamPartition, inputs: Mapping[SystemStream, InputPartitions]) -> bool:
    """Whether the partition came after the job's first start."""
    known = inputs.get(ssp.system_stream)
    return known is not None and ssp.partition >= known.first


def growth(inputs: Mapping[SystemStream, InputPartitions], of: Iterable[SystemStream]) -> Iterable[str]:
    """One line for each input that has expanded."""
    for stream in of:
        known = inputs[stream]
        if known.expanded:
            yield (
                f"{stream}: has grown from {known.grouped} to {known.last} partitions; partition p is read by the task "
                f"of p % {known.grouped}, where its keys' state is"
            )


class _Record(msgspec.Struct):
    inputs: dict[str, InputPartitions]


def to_json(inputs: Mapping[SystemStream, InputPartitions]) -> dict[str, Any]:
    """Return the JSON object of a record beside the checkpoints."""
    record = _Record({str(stream): known for stream, known in sorted(inputs.items())})
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def from_json(data: Mapping[str, Any] | None) -> dict[SystemStream, InputPartitions]:
    """The inverse of `to_json`; nothing for None. Raises RestoreError."""
    if data is None:
        return {}
    try:
        return {SystemStream.parse(text): known for text, known in convert(_Record, data).inputs.items()}
    except ValueError as cause:
        raise RestoreError(f"the job's record of its inputs cannot be read ({cause})") from cause


#: Tasks by name.
Groups = dict[str, frozenset[SystemStreamPartition]]


def by_partition(ssps: Iterable[SystemStreamPartition]) -> Groups:
    """One task per partition number, `Partition 3`, with that partition of every input: co-partitioned inputs meet."""
    groups: dict[int, set[SystemStreamPartition]] = defaultdict(set)
    for ssp in ssps:
        groups[ssp.partition].add(ssp)
    return {f"Partition {number}": frozenset(groups[number]) for number in sorted(groups)}


def by_ssp(ssps: Iterable[SystemStreamPartition]) -> Groups:
    """One task per partition of every input, named as Samza names it."""
    return {f"SystemStreamPartition [{s.system}, {s.stream}, {s.partition}]": frozenset((s,)) for s in sorted(ssps)}


def single(ssps: Iterable[SystemStreamPartition]) -> Groups:
    """One task, `Task-0`, with everything."""
    return {"Task-0": frozenset(ssps)}


GROUPERS: dict[str, Callable[[Iterable[SystemStreamPartition]], Groups]] = {
    "partition": by_partition,
    "ssp": by_ssp,
    "single": single,
}


def parted(
    config: JobConfig, inputs: Mapping[SystemStream, InputPartitions], of: Collection[SystemStream] | None = None
) -> str | None:
    """The reason why equal keys of all inputs, or of these, do not meet in one task; None if they do. Broadcast inputs
    meet everything.

    The counts by which the tasks are grouped decide: an input that has grown since brings its keys to the old tasks.
    """
    counts = {stream: inputs[stream].grouped for stream in config.task.inputs if of is None or stream in of}
    shown = " ".join(f"{stream}={count}" for stream, count in counts.items())
    if config.grouper == "partition" and len(set(counts.values())) > 1:
        return f"partition counts differ: {shown}; messages of equal keys do not meet in one task"
    if config.grouper == "ssp" and len(counts) > 1:
        return f"each partition is a task of its own: {shown}; messages of different inputs do not meet in one task"
    return None


def check_copartitioned(
    config: JobConfig, inputs: Mapping[SystemStream, InputPartitions], task_class: type[AnyTask]
) -> None:
    """Raise EnvironmentFailure if the task joins its inputs, or some of them, and their keys do not meet."""
    if not issubclass(task_class, CopartitionedTask):
        return
    needs = task_class.copartitioned
    for who, of in {f"{task_class.__name__} joins them": None}.items() if needs is None else needs.items():
        if apart := parted(config, inputs, of):
            raise EnvironmentFailure(f"task.inputs: {apart}, and {who}")


def plan(
    config: JobConfig,
    partitions: Mapping[SystemStream, int],
    previous: Mapping[str, int] | None = None,
    known: Mapping[SystemStream, InputPartitions] | None = None,
) -> JobModel:
    """Group the inputs' partitions into tasks and the tasks into at most `job.container.count` containers.

    `partitions` gives the partition count of every input (broadcast inputs need none). `previous` is the changelog
    partition of every earlier task; tasks keep theirs, and new tasks get the numbers after the largest. `known` says
    which inputs have grown (`follow_growth`). Raises EnvironmentFailure for an input that grew out of a broadcast
    partition, ConfigError if there is no partition for a task.
    """
    inputs = [
        SystemStreamPartition(stream.system, stream.stream, number)
        for stream in config.task.inputs
        for number in range(partitions[stream])
    ]
    broadcast = config.task.broadcast_inputs
    groups = _grouped(config.grouper, [ssp for ssp in inputs if ssp not in broadcast], known or {})
    if not groups:
        raise ConfigError([_no_task(inputs)])
    owned = changelog_partitions(groups, previous or {})
    late = {ssp for ssp in inputs if is_late(ssp, known or {})}
    tasks = [TaskModel(name, ssps | broadcast, owned[name], ssps & late) for name, ssps in groups.items()]
    tasks.sort(key=lambda task: task.changelog_partition)
    count = max(1, min(config.container_count, len(tasks)))
    containers = tuple(ContainerModel(str(i), tuple(tasks[i::count]), len(tasks)) for i in range(count))
    return JobModel(containers, _standbys(config, containers))


def _no_task(inputs: Sequence[SystemStreamPartition]) -> ConfigProblem:
    if not inputs:
        return ConfigProblem(
            "task.inputs", None, "expected an input with partitions: they have none, so there is no task"
        )
    return ConfigProblem(
        "task.broadcast.inputs", None, "takes every partition of task.inputs, so there is no task: leave one out"
    )


def _standbys(config: JobConfig, containers: Sequence[ContainerModel]) -> tuple[ContainerModel, ...]:
    if not keeps_state(config.stores):
        return ()
    replicas = range(1, config.placement.copies)
    return tuple(ContainerModel(f"{c.id}-{replica}", c.tasks) for c in containers for replica in replicas)


def _grouped(
    grouper: str, inputs: Sequence[SystemStreamPartition], known: Mapping[SystemStream, InputPartitions]
) -> Groups:
    """The grouper's tasks, each with the partitions that an expansion has added to it."""
    homes = {ssp: home(ssp, known) for ssp in inputs}
    groups = GROUPERS[grouper](ssp for ssp in inputs if homes[ssp] == ssp)
    task_of = {ssp: name for name, ssps in groups.items() for ssp in ssps}
    joined: dict[str, set[SystemStreamPartition]] = defaultdict(set)
    for ssp, at in homes.items():
        if at not in task_of:
            raise EnvironmentFailure(
                f"{ssp}: its keys belong to {at}, which is in task.broadcast.inputs and forms no task"
            )
        joined[task_of[at]].add(ssp)
    return {name: ssps | joined[name] for name, ssps in groups.items()}


def changelog_partitions(names: Mapping[str, object], previous: Mapping[str, int]) -> dict[str, int]:
    """The changelog partition of each task: the previous one, else the next free number in the order of the names as
    text.

    That is JVM Samza's order ("Partition 10" before "Partition 2"), so that either finds the other's changelogs.
    """
    owned = {name: previous[name] for name in names if name in previous}
    upcoming = max(previous.values(), default=-1) + 1
    for name in sorted(names):
        if name not in owned:
            owned[name] = upcoming
            upcoming += 1
    return owned


def keeps_state(stores: Mapping[str, StoreConfig]) -> bool:
    """Whether the job's tasks have state that outlives them."""
    return any(store.changelog is not None for store in stores.values())


def without_idle_standbys(config: JobConfig, on_disk: Collection[str]) -> JobConfig:
    """The job as it runs; `on_disk`: the stores that keep files. If every store with a changelog is in memory, it has
    no standbys, and a warning says so."""
    logged = [name for name, store in config.stores.items() if store.changelog is not None]
    if not config.placement.standbys or not logged or any(name in on_disk for name in logged):
        return config
    reason = "they keep copies of stores on disk, and every store with a changelog is in memory"
    note = f"job.standbytasks.replication.factor: no standbys, since {reason}"
    placement = replace(config.placement, copies=1)
    return replace(config, placement=placement, warnings=(*config.warnings, note))


_INTERNAL = "__"


@dataclass(frozen=True)
class FoundInputs:
    """The streams that each pattern matches, and the matching ones that do not become inputs, each with the reason."""

    by_pattern: Mapping[InputPattern, tuple[SystemStream, ...]]
    left_out: Mapping[SystemStream, str]

    @property
    def streams(self) -> frozenset[SystemStream]:
        return frozenset().union(*self.by_pattern.values())

    @property
    def empty(self) -> list[InputPattern]:
        return [pattern for pattern, streams in self.by_pattern.items() if not streams]


def find_inputs(config: JobConfig, listed: Mapping[str, Iterable[str]]) -> FoundInputs:
    """Match the patterns of a job file with the names of the streams `listed` by system."""
    reasons = never_inputs(config)
    by_pattern: dict[InputPattern, tuple[SystemStream, ...]] = {}
    left_out: dict[SystemStream, str] = {}
    for pattern in config.task.patterns:
        system = pattern.stream.system
        names = [n for n in sorted(listed.get(system, ())) if not (n.startswith(_INTERNAL) or is_pattern(n))]
        matching = [stream for name in names if pattern.matches(stream := SystemStream(system, name))]
        left_out |= {stream: reasons[stream] for stream in matching if stream in reasons}
        by_pattern[pattern] = tuple(stream for stream in matching if stream not in reasons)
    return FoundInputs(by_pattern, left_out)


def check_found(config: JobConfig, found: FoundInputs) -> None:
    """Raise ConfigError, with all of them, for patterns that match nothing. If the job file has the driver look again,
    they are allowed beside another input."""
    has_inputs = bool(found.streams or config.task.inputs)
    if has_inputs and config.task.refresh_ms is not None:
        return
    hint = ", or set job.inputs.refresh.ms and the job takes it when it comes" if has_inputs else ""
    problems = [
        ConfigProblem(
            "task.inputs",
            str(pattern),
            f"matches no stream of system '{pattern.stream.system}' now; create one first{hint}",
        )
        for pattern in found.empty
    ]
    raise_if_any(problems)


def late_inputs(
    config: JobConfig, patterns: Collection[InputPattern], known: Collection[SystemStream], *, ever: bool
) -> set[SystemStream]:
    """The inputs that patterns have found after the first start, and without a start of their own in the job file.

    `known`: the inputs of earlier runs. `ever`: there was such a run. `config` is the resolved job.
    """
    if not ever:
        return set()
    return {
        stream
        for stream in config.task.inputs
        if stream not in known
        and any(pattern.matches(stream) for pattern in patterns)
        and not is_start_given(config.resolved, stream, config.stream(stream).stream_id)
    }


def forget_gone(
    known: Mapping[SystemStream, InputPartitions], inputs: Collection[SystemStream], patterns: Collection[InputPattern]
) -> dict[SystemStream, InputPartitions]:
    """The inputs of earlier runs without deleted streams of a pattern: their positions go as well, so a stream that
    comes back is a new one."""
    return {
        stream: item
        for stream, item in known.items()
        if stream in inputs or not any(pattern.matches(stream) for pattern in patterns)
    }


def refusal(
    config: JobConfig, stream: SystemStream, partitions: int, tasks: Collection[str], *, joining: bool = False
) -> str | None:
    """The reason why a job that runs `tasks`, by name, cannot take a new input; None if it can. `joining`: the tasks
    join their inputs, so the keys of all inputs have to meet."""
    ssps = [SystemStreamPartition(*stream, number) for number in range(partitions)]
    groups = GROUPERS[config.grouper](ssps).keys()
    further = groups - set(tasks)
    has = f"{stream} has {partitions} partition{'s' if partitions != 1 else ''}"
    if further and tasks and keeps_state(config.stores):
        return (
            f"{has}, for {len(further) + len(tasks)} tasks in all; the job's state is by {len(tasks)}: give it fewer "
            "partitions, leave it out of task.inputs, or start a new job (job.id)"
        )
    if joining and groups != set(tasks):
        return f"{has}, and the {len(tasks)} tasks join their inputs: messages of equal keys would not meet in one task"
    return None


def refuse_further_tasks(
    config: JobConfig, counts: Mapping[SystemStream, int], new: Iterable[SystemStream], tasks: Collection[str]
) -> None:
    """Raise EnvironmentFailure, with a line for each, for `new` inputs that a job with these `tasks` cannot take."""
    reasons = [reason for stream in sorted(new) if (reason := refusal(config, stream, counts[stream], tasks))]
    if reasons:
        raise EnvironmentFailure("\n".join(f"task.inputs: {reason}" for reason in reasons))
