"""Finds the inputs that the patterns of a job match, and decides which of them the job may take: pure functions over
names.

1. A pattern matches the names that its system lists. Streams that begin with `__`, which are internal, and streams of
   the job's own records, its outputs, or the contents of its stores (`never_inputs`) do not become inputs.
2. An input that a pattern finds after the job's first start was written for the job from its first record. So all its
   partitions are late: they begin at their oldest record, unless the job file says where the input starts.
3. A job with state has the tasks of its first start. An input that would need further tasks is refused: no changelog
   has a partition for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import never_inputs
from samzapy.config.streams.stream import is_pattern, is_start_given
from samzapy.config.tasks.patterns import REFRESH_MS, InputPattern
from samzapy.config.tasks.task import INPUTS
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.job.planner import GROUPERS, InputPartitions, keeps_state

_INTERNAL = "__"


@dataclass(frozen=True)
class FoundInputs:
    """The streams that each pattern matches, and the matching ones that do not become inputs, each with the reason."""

    by_pattern: Mapping[InputPattern, tuple[SystemStream, ...]]
    left_out: Mapping[SystemStream, str]

    @property
    def streams(self) -> frozenset[SystemStream]:
        """All streams that some pattern matches."""
        return frozenset().union(*self.by_pattern.values())

    @property
    def empty(self) -> list[InputPattern]:
        """The patterns without a match."""
        return [pattern for pattern, streams in self.by_pattern.items() if not streams]


def find_inputs(
    config: JobConfig, listed: Mapping[str, Iterable[str]], refused: Collection[SystemStream] = ()
) -> FoundInputs:
    """Match the patterns of a job file with the names of the streams `listed` by system. `refused` are left out."""
    reasons = {**never_inputs(config), **dict.fromkeys(refused, "refused by this run")}
    by_pattern: dict[InputPattern, tuple[SystemStream, ...]] = {}
    left_out: dict[SystemStream, str] = {}
    for pattern in config.task.patterns:
        system = pattern.stream.system
        streams = (SystemStream(system, name) for name in sorted(listed.get(system, ())) if _is_open(name))
        matching = [stream for stream in streams if pattern.matches(stream)]
        left_out |= {stream: reasons[stream] for stream in matching if stream in reasons}
        by_pattern[pattern] = tuple(stream for stream in matching if stream not in reasons)
    return FoundInputs(by_pattern, left_out)


def _is_open(name: str) -> bool:
    return not name.startswith(_INTERNAL) and not is_pattern(name)


def check_found(config: JobConfig, found: FoundInputs) -> None:
    """Raise ConfigError, with all of them, for patterns that match nothing. If the job file has the driver look again,
    they are allowed beside another input."""
    looks_again = config.task.refresh_ms is not None
    if looks_again and (found.streams or config.task.inputs):
        return
    hint = "" if looks_again else f", or set {REFRESH_MS.name} and the job takes it when it comes"
    problems = [
        ConfigProblem(
            INPUTS.name,
            str(pattern),
            f"matches no stream of system '{pattern.stream.system}' now; create one first{hint}",
        )
        for pattern in found.empty
    ]
    if problems:
        raise ConfigError(problems)


def late_inputs(
    config: JobConfig, patterns: Collection[InputPattern], known: Collection[SystemStream], *, ever: bool
) -> set[SystemStream]:
    """The inputs that patterns have found after the first start, and without a start of their own in the job file.

    `known`: the inputs of earlier runs. `ever`: there was such a run, or the job has waited for its first input.
    `config` is the resolved job.
    """
    if not ever:
        return set()
    id_of = {stream: stream_id for stream_id, stream in config.stream_ids.items()}
    return {
        stream
        for stream in config.task.inputs
        if stream not in known
        and any(pattern.matches(stream) for pattern in patterns)
        and not is_start_given(config.resolved, stream, id_of.get(stream))
    }


def forget_gone(
    known: Mapping[SystemStream, InputPartitions], inputs: Collection[SystemStream], patterns: Collection[InputPattern]
) -> dict[SystemStream, InputPartitions]:
    """The inputs of earlier runs without deleted streams of a pattern: their positions go as well, so a stream that
    comes back is a new one."""
    return {
        stream: each
        for stream, each in known.items()
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
            "partitions, "
            "leave it out of task.inputs, or start a new job (job.id)"
        )
    if joining and groups != set(tasks):
        return f"{has}, and the {len(tasks)} tasks join their inputs: messages of equal keys would not meet in one task"
    return None


def refuse_further_tasks(
    config: JobConfig,
    counts: Mapping[SystemStream, int],
    new: Iterable[SystemStream],
    tasks: Collection[str],
) -> None:
    """Raise EnvironmentFailure, with a line for each, for `new` inputs that a job with these `tasks` cannot take."""
    reasons = [reason for stream in sorted(new) if (reason := refusal(config, stream, counts[stream], tasks))]
    if reasons:
        raise EnvironmentFailure("\n".join(f"task.inputs: {reason}" for reason in reasons))
