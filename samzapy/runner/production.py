"""Looks for what a job and its surroundings lack before they run in production: `samzapy check --production`.

A check of the table `CHECKS` yields reasons. Each is a red line, or one that is not known, if it is `Unknown`. A check
without reasons is ok. The page `PAGE` has a section for each check, under its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from samzapy.admin.job_check import TRANSACTIONS, Warn, inspect_start, resolved
from samzapy.admin.user_code import JobCode
from samzapy.api.context import Context
from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.stream import SystemStream, grouped
from samzapy.api.system import StreamDescription
from samzapy.config.guarantee_warnings import guarantee_warnings
from samzapy.config.job import JobConfig, checkpoint_stream, never_inputs, own_streams, state_checkpoint_stream
from samzapy.container.outputs.producers import weakened_state
from samzapy.container.supervision.worker_process import memory_needed
from samzapy.errors import EnvironmentFailure
from samzapy.job.planner import JobModel
from samzapy.metrics.dashboard import rules as alert_rules
from samzapy.operators.event_time import milliseconds
from samzapy.operators.windows.windows import Windowed
from samzapy.pipeline.task import PipelineTask
from samzapy.pipeline.timed import JoinOfStreams, Windows
from samzapy.runner.base import TOKEN
from samzapy.runner.spark.master import Master, checked_master
from samzapy.storage.changelog.topic import check_changelog
from samzapy.system.clients import job_clients, load_factory, traits_of

PAGE = "docs/how-to/operate/production.md"

#: The copies of a topic that takes writes, and loses nothing, while one broker is away; those that have each record.
_COPIES, _IN_SYNC = 3, 2
#: A job may be down for a day without losing messages.
_OUTAGE_MS = 86_400_000
#: Places that one reason names.
_MOST_NAMED = 5
_MIB = 2**20
_OVERHEAD = "spark.executor.memoryOverhead"
_EMPTIED = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108
_NO_DISK = {"tmpfs", "ramfs", "nfs", "nfs4", "cifs", "9p"}


class Unknown(str):
    """A reason why something is not known."""

    __slots__ = ()


_SUPERVISOR, _RECOVERY = Unknown("what starts the driver again"), Unknown("the spark.deploy.recoveryMode of the master")


class Surroundings(NamedTuple):
    """What the checks look at. `model`: the reason, if a start is refused. `topics`: those that exist. `rules`: the
    text of a file of alert rules."""

    config: JobConfig
    code: JobCode
    master: Master
    model: JobModel | str
    rules: str | None
    topics: Mapping[SystemStream, StreamDescription] = {}

    @property
    def inputs(self) -> frozenset[SystemStream]:
        return frozenset(self.config.task.all_inputs | self.config.sources)

    @property
    def own(self) -> frozenset[SystemStream]:
        """The changelogs and checkpoints."""
        has_state = issubclass(self.code.task_class, StateCheckpointTask)
        states = state_checkpoint_stream(self.config) if has_state else None
        return frozenset({*self.config.changelogs, *filter(None, [checkpoint_stream(self.config), states])})

    @property
    def outputs(self) -> frozenset[SystemStream]:
        """The streams that the job file names otherwise, and that no start creates."""
        named = {*self.config.streams, *never_inputs(self.config)}
        created = {*own_streams(self.config), *(item.stream for item in self.config.metrics_reporters)}
        return frozenset(named - self.inputs - created)

    @property
    def late_ms(self) -> int | None:
        """How long windows and joins wait for late messages; None if the code alone knows."""
        task = self.code.task_class
        if issubclass(task, PipelineTask):
            windows = [step.definition.grace_ms for step in task.plan.steps if isinstance(step, Windows)]
            rules = [step.rules for step in task.plan.steps if isinstance(step, JoinOfStreams)]
            return max([0, *windows, *(milliseconds(item.lateness, "lateness") for item in rules)])
        if issubclass(task, Windowed):
            # The container and the task of a context are there only in a run.
            with suppress(Exception):
                context = Context(self.config.context, None, None)  # type: ignore[arg-type]
                return task().aggregation(context).windows.grace_ms
        return None if self.config.stores else 0


def survey(config: JobConfig, code: JobCode, rules: str | None, warn: Warn) -> Surroundings:
    """Look at everything once. Raises NotReachable, RetriableError or EnvironmentFailure without an answer."""
    model: JobModel | str
    try:
        config = resolved(config)
        model, _ = inspect_start(config, warn, code)
    except EnvironmentFailure as cause:
        model = str(cause)
    seen = Surroundings(config, code, checked_master(config, config.container_count, 0, endless=False), model, rules)
    with closing(job_clients(config, "check")) as clients:
        transactions = {SystemStream(item.system, TRANSACTIONS) for item in [checkpoint_stream(config)] if item}
        topics = sorted(clients.describe(seen.inputs | seen.own | seen.outputs | transactions).items())
    return seen._replace(topics={stream: topic for stream, topic in topics if topic is not None})


def checklist(seen: Surroundings, accepted: Collection[str] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Its lines: the check, whether it is ok, red, accepted or not known, why, and where to read about it."""
    for name, (check, good) in CHECKS.items():
        red = "accepted" if name in accepted else "red"
        lines = [("not known" if isinstance(item, Unknown) else red, str(item)) for item in check(seen)]
        yield from ((name, *line, f"{PAGE}#{name}") for line in lines or [("ok", good)])


def _grouped(found: Iterable[tuple[object, str | None]]) -> Iterator[str]:
    """One reason for all places that have the same."""
    for reason, named in grouped((reason, str(place)) for place, reason in found if reason).items():
        more = f" and {len(named) - _MOST_NAMED} more" * (len(named) > _MOST_NAMED)
        yield type(reason)(f"{', '.join(named[:_MOST_NAMED])}{more}: {reason}")


def _of_topics(check: str, seen: Surroundings) -> Iterator[str]:
    """What is wrong, by this check, with the topics of systems that keep copies."""
    topics = [(stream, topic) for stream, topic in seen.topics.items() if topic.replicas is not None]
    if not topics:
        yield Unknown("no topic of a cluster exists")
    for_all = ((item, dict(_settings(seen, item, topic))) for item, topic in topics)
    yield from _grouped((item, result.get(check, result.get(""))) for item, result in for_all)


def _start(seen: Surroundings) -> Iterator[str]:
    if isinstance(seen.model, str):
        yield f"it would be refused: {seen.model}"
    yield from _grouped((item, "the output does not exist") for item in sorted(seen.outputs - seen.topics.keys()))


def _replication(seen: Surroundings) -> Iterator[str]:
    def wrong(stream: SystemStream, topic: StreamDescription) -> str | None:
        if topic.replicas is not None:
            return f"replication factor {topic.replicas}, expected {_COPIES}" if topic.replicas < _COPIES else None
        place = traits_of(seen.config.systems[stream.system]).place
        return place and f"in {place}, which is lost with its machine"

    yield from _grouped((stream, wrong(stream, topic)) for stream, topic in seen.topics.items())
    new = sorted(seen.own - seen.topics.keys())
    yield from _grouped((item, Unknown("check again after the first start")) for item in new)


def _settings(seen: Surroundings, stream: SystemStream, topic: StreamDescription) -> Iterator[tuple[str, str]]:
    """The names of checks, each with what is wrong with the settings of a topic; no name for every check."""
    if topic.hidden:
        yield "", Unknown(f"hidden: {topic.hidden}")
        return
    least, policy = int(topic.config.get("min.insync.replicas", 1)), topic.config.get("cleanup.policy", "delete")
    if least < _IN_SYNC:
        yield "min-insync", f"min.insync.replicas={least}: an acknowledged record may be on one broker only"
    elif least >= (topic.replicas or 0):
        yield "min-insync", f"min.insync.replicas={least} of {topic.replicas}: writes stop without one broker"
    if topic.config.get("unclean.leader.election.enable") == "true":
        effect = "a copy that lags may replace acknowledged records"
        yield "unclean-election", f"unclean.leader.election.enable=true: {effect}"
    kept = int(topic.config.get("retention.ms", -1)) if "delete" in policy else -1
    if stream in seen.config.changelogs:
        try:
            check_changelog(topic, seen.config.changelogs[stream])
        except EnvironmentFailure as cause:
            yield "compaction", str(cause)
    elif kept >= 0 and (stream in seen.own or seen.config.stream(stream).bootstrap):
        yield "compaction", f"cleanup.policy={policy}, expected compact: positions or rows would be lost"
    elif kept >= 0 and (reason := _too_short(seen, stream, kept)):
        yield "retention", reason


def _too_short(seen: Surroundings, stream: SystemStream, kept: int) -> str | None:
    """What is wrong with the milliseconds for which retention keeps an input or output."""
    late = seen.late_ms
    if stream in seen.outputs:
        effect = f"retention.ms={kept}: a result has the time of its window, up to {late} ms ago"
        return effect if kept < (late or 0) else None
    if kept < max(late or 0, _OUTAGE_MS):
        waits = f", and messages may be {late} ms late" if late else ""
        return f"retention.ms={kept}: a longer outage of the job loses messages{waits}"
    code = f"how late messages may be, by the joins of {seen.code.task_class.__name__}"
    return Unknown(f"retention.ms={kept}; {code}") if late is None else None


def _rights(seen: Surroundings) -> Iterator[str]:
    def lacking(stream: SystemStream, allowed: Collection[str]) -> str | None:
        between, own = stream in seen.config.repartitions, stream in seen.own
        needed = {"READ": stream not in seen.outputs, "WRITE": between or stream not in seen.inputs}
        needed |= {"DELETE": between, "DESCRIBE_CONFIGS": own}
        missing = [name for name, is_needed in needed.items() if is_needed and name not in allowed]
        return f"the user lacks {', '.join(missing)}" if missing else None

    topics = [(item, topic.allowed) for item, topic in seen.topics.items() if item.stream != TRANSACTIONS]
    told = [(item, allowed) for item, allowed in topics if allowed is not None]
    yield from _grouped((item, lacking(item, allowed)) for item, allowed in told)
    if not told:
        yield Unknown("no system tells what the user may do")
    elif any("ALTER" not in allowed for _, allowed in told):
        # The cluster gives rights one by one, and does not tell these.
        yield Unknown(f"the rights on transactional ids and groups that begin with {seen.config.job_name}-")


def _memory(seen: Surroundings) -> Iterator[str]:
    if isinstance(seen.model, str) or not seen.model.containers:
        yield Unknown("the needs of the containers: a start would be refused")
        return
    conf, containers = seen.config.spark.conf, seen.model.containers
    largest = max(containers, key=lambda container: len(container.tasks))
    needed = sum(part.size for part in memory_needed(seen.config, largest, seen.code.engines))
    if seen.master.on_this_machine:
        needed, available, where = needed * len(containers), psutil.virtual_memory().total, "this machine has"
    elif seen.master.on_demand:
        needed *= max(1, int(conf.get("spark.executor.cores", "1")) // seen.master.task_cpus)
        least = max(384 * _MIB, _bytes(conf.get("spark.executor.memory", "1g")) // 10)
        available, where = _bytes(conf.get(_OVERHEAD, f"{least // _MIB}m")), f"{_OVERHEAD} is"
    else:
        yield Unknown(f"the memory of the hosts: a container needs about {needed // _MIB:,} MiB outside the JVM")
        return
    if needed > available:
        yield f"the containers there need about {needed // _MIB:,} MiB, {where} {available // _MIB:,} MiB"


def _bytes(text: str) -> int:
    """A size as Spark writes it; without a unit in MiB."""
    result = re.fullmatch(r"(\d+)\s*([kmgt]?)b?", text.strip().lower())
    return int(result[1]) << 10 * ("kmgt".index(result[2] or "m") + 1) if result else 0


def _alerts(seen: Surroundings) -> Iterator[str]:
    if seen.rules is None:
        yield Unknown("whether Prometheus has the alert rules: name their file with --rules")
        return
    ours, theirs = (re.findall(r"^[ -]*alert: *\"?(\w+)", item, re.MULTILINE) for item in (alert_rules(), seen.rules))
    yield from _grouped((name, "missing in the file of --rules") for name in ours if name not in theirs)


def _state_folder(seen: Surroundings) -> Iterator[str]:
    base = seen.config.logged_store_base_dir
    if not any(store.persistent for store in seen.code.engines.values()):
        return
    mounts = {Path(item.mountpoint): item.fstype for item in psutil.disk_partitions(all=True)}
    kind = next((mounts[item] for item in (base, *base.parents) if item in mounts), "")
    if not base.is_absolute():
        yield f"{base} is relative: a start in another folder finds no state"
    elif any(map(base.is_relative_to, _EMPTIED)):
        yield f"{base} is for temporary files, which the machine may delete"
    elif not seen.master.on_this_machine:
        yield Unknown(f"what {base} is on the hosts of the executors")
    elif kind in _NO_DISK:
        yield f"{base} is on no disk of this machine ({kind})"


def _page(seen: Surroundings) -> Iterator[str]:
    if seen.config.spark.coordinator_tls is False and not seen.master.on_this_machine:
        yield "job.spark.coordinator.tls.enabled=false: tokens and reports cross the network in the clear"
    if not os.environ.get(TOKEN):
        yield Unknown(f"the token of the page: {TOKEN} is not set here, and without it each run draws another one")


def _guarantee(seen: Surroundings) -> Iterator[str]:
    config, code = seen.config, seen.code
    weaker = (*guarantee_warnings(config, load_factory, code.task_class), *weakened_state(config.stores, code.state))
    yield from (f"{config.task.guarantee.value} is weaker by {item}" for item in weaker)


#: The checks by name, each with what is so if it yields nothing.
CHECKS: Mapping[str, tuple[Callable[[Surroundings], Iterable[str]], str]] = {
    "start": (_start, "the job would start"),
    "replication": (_replication, f"each topic has {_COPIES} copies or more"),
    "min-insync": (
        partial(_of_topics, "min-insync"),
        "each acknowledged record is on two brokers, and one may be away",
    ),
    "unclean-election": (partial(_of_topics, "unclean-election"), "no copy that lags becomes a leader"),
    "compaction": (partial(_of_topics, "compaction"), "no changelog, checkpoint or table loses records"),
    "retention": (partial(_of_topics, "retention"), "inputs outlast late messages, and an outage of a day"),
    "rights": (_rights, "the user may do what the job does"),
    "memory": (_memory, "the containers fit"),
    "supervisor": (lambda _: [_SUPERVISOR], ""),
    "spark-recovery": (
        lambda seen: [_RECOVERY] * bool(re.match("spark://[^,]+$", seen.master.address)),
        "no single Spark master to lose",
    ),
    "alert-rules": (_alerts, "each alert is there"),
    "state-folder": (_state_folder, "the stores survive a restart"),
    "page": (_page, "a token of its own, and TLS to other machines"),
    "guarantee": (_guarantee, "nothing weakens it"),
}
