"""Defines the records that tools write next to a job's checkpoints: adopted changelog records, copied stores,
startpoints. And finds the offset at which a partition starts: its checkpoint, the default of its stream, or an
operator's choice.

`Adopted`: the job accepts changelog records as its own although none of its tasks has written them. A tool that fills a
store, or an operator who accepts the contents of a changelog, records the ends:

{"changelogs": {"kafka.orders-counts": {"id": "Xq3...", "ends": {"0": 481, "1": 92}}}}

`ends` are the offsets after the last such record of each partition; they hold for the topic with that id only.

`Copied`: the changelogs that stores were copied to. The checkpoints count the records of the copy, so a job file that
still names the old changelog is refused:

{"stores": {"counts": "kafka.orders-counts-v2"}}

`Startpoint`, of Samza's SEP-18, makes a partition start elsewhere than at the committed offset:

{"format": 1, "startpoints": [{"id": "5f0c...", "input": "kafka.orders[0]", "position": "@1700000000000",
                               "created-ms": 1700000000000, "task": null}]}

1. An operator writes one at any time, also while the job runs. The next start follows it, once. It is void after twelve
   hours.
2. If a partition and a task have several, the newest counts, as in Samza. It voids the older ones for good.
3. Samza deletes a startpoint after a commit. Here that commit names the startpoints that it followed, so a crash
   neither follows one twice nor loses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

import msgspec

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord, JobRun
from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import OffsetRange, SystemAdmin
from samzapy.checkpoint import codec
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.errors import ConfigError, ConfigProblem, OffsetOutOfRange, PositionVoid, RestoreError, raise_if_any
from samzapy.strict_json import Moment, Natural, convert

T = TypeVar("T")


def _read(kind: type[T], data: Mapping[str, Any], what: str) -> T:
    try:
        return convert(kind, data)
    except ValueError as cause:
        raise RestoreError(f"the job's record of {what} cannot be read ({cause})") from cause


class _Ends(msgspec.Struct):
    id: str
    ends: dict[Natural, Natural]


class _AdoptedRecord(msgspec.Struct):
    changelogs: dict[str, _Ends]


@dataclass(frozen=True)
class Adopted:
    """`ends` by changelog, and by the id of its topic."""

    ends: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)

    def end(self, ssp: SystemStreamPartition, topic_id: str) -> int:
        """The offset after the last adopted record of a changelog's partition, 0 for none."""
        return self.ends.get((str(ssp.system_stream), topic_id), {}).get(ssp.partition, 0)

    def with_ends(self, stream: SystemStream, topic_id: str, ends: Mapping[int, int]) -> Adopted:
        """These ends and the known ones, without the ends of an earlier topic of the name."""
        name = str(stream)
        others = {key: value for key, value in self.ends.items() if key[0] != name}
        known = self.ends.get((name, topic_id), {})
        return Adopted({**others, (name, topic_id): {**known, **ends}})

    @classmethod
    def merged(cls, records: Sequence[Adopted]) -> Adopted:
        """The first record with the changes of the others. Of two ends in one topic the later one counts."""
        first = records[0] if records else cls()
        ends = dict(first.ends)
        for other in records[1:]:
            for (name, topic_id), changed in other.ends.items():
                if first.ends.get((name, topic_id)) != changed:
                    known = ends.get((name, topic_id), {})
                    ends = {key: value for key, value in ends.items() if key[0] != name}
                    ends[name, topic_id] = {n: max(known.get(n, 0), changed.get(n, 0)) for n in {**known, **changed}}
        return cls(ends)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a job record."""
        return {
            "changelogs": {
                name: {"id": topic_id, "ends": {str(number): end for number, end in ends.items()}}
                for (name, topic_id), ends in self.ends.items()
            }
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Adopted:
        """The inverse of `to_json`; nothing for None. Raises RestoreError."""
        known = {} if data is None else _read(_AdoptedRecord, data, "adopted changelogs").changelogs
        return cls({(name, entry.id): entry.ends for name, entry in known.items()})


def adopt_ends(checkpoints: CheckpointManager, found: Mapping[SystemStream, tuple[str, Mapping[int, int]]]) -> None:
    """Record the ends of changelogs, each with the id of its topic, as the job's own."""

    def with_these(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        adopted = Adopted.merged([Adopted.from_json(value) for value in values])
        for stream, (topic_id, ends) in found.items():
            adopted = adopted.with_ends(stream, topic_id, ends)
        return adopted.to_json()

    checkpoints.change_record(JobRecord.ADOPTED, with_these)


def read_owner(checkpoints: CheckpointManager) -> JobRun | None:
    """The run that was started last, None before the first."""
    value = checkpoints.read_record(JobRecord.OWNER).newest
    return None if value is None else codec.owner_of(value)


def peek_owners(checkpoints: CheckpointManager) -> tuple[Sequence[JobRun], bool]:
    """The runs of all owner records that are still kept, oldest first, as far as they can be read without waiting for
    open transactions, and whether everything was read."""
    history = checkpoints.read_record(JobRecord.OWNER, wait=False)
    return tuple(map(codec.owner_of, history.values)), history.complete


def peek_owner(checkpoints: CheckpointManager) -> tuple[JobRun | None, bool]:
    """The last of `peek_owners`, None for none, and whether everything was read."""
    owners, complete = peek_owners(checkpoints)
    return owners[-1] if owners else None, complete


def write_owner(checkpoints: CheckpointManager, run: JobRun) -> None:
    """Make `run` the owner of the job, durably and outside of any transaction. From now on every other run must let
    go."""
    checkpoints.write_record(JobRecord.OWNER, codec.owner_record(run))


def read_changelog_partitions(checkpoints: CheckpointManager) -> dict[str, int]:
    """The changelog partition of each task that ever had one, by task name. Raises RestoreError."""
    value = checkpoints.read_record(JobRecord.PARTITIONS).newest
    return {} if value is None else codec.partitions_of(value)


def write_changelog_partitions(checkpoints: CheckpointManager, partitions: Mapping[str, int]) -> None:
    """Keep the mapping durably, unless it is the one that is kept."""
    if read_changelog_partitions(checkpoints) != partitions:
        checkpoints.write_record(JobRecord.PARTITIONS, {"partitions": dict(partitions)})


class _CopiedRecord(msgspec.Struct):
    stores: dict[str, str]


def read_copied(checkpoints: CheckpointManager) -> Mapping[str, str]:
    """The changelog that each store was copied to last. Raises RestoreError."""
    record = checkpoints.read_record(JobRecord.COPIED).newest
    return {} if record is None else _read(_CopiedRecord, record, "its copied stores").stores


def refuse_copied(checkpoints: CheckpointManager, stores: Mapping[str, StoreConfig]) -> None:
    """Raise ConfigError for a store whose state is in another changelog than the job file names."""
    problems = []
    for name, changelog in read_copied(checkpoints).items():
        store = stores.get(name)
        if store is not None and store.changelog is not None and str(store.changelog) != changelog:
            message = (
                f"the store was copied to {changelog}, where its state is now: name it, with the serdes of the copy"
            )
            problems.append(ConfigProblem(f"stores.{name}.changelog", str(store.changelog), message))
    raise_if_any(problems)


#: The lifetime of a startpoint, as in Samza.
EXPIRY_MS = 12 * 3_600_000


@dataclass(frozen=True)
class Startpoint:
    """`position` is a text for `Target`; `task` None: every task that reads the partition."""

    id: str
    ssp: SystemStreamPartition
    position: str
    created_ms: int
    task: str | None = None

    def expired(self, now_ms: int) -> bool:
        """Whether it has expired."""
        return now_ms - self.created_ms >= EXPIRY_MS


class _StartpointEntry(msgspec.Struct, rename="kebab"):
    id: str
    input: str
    position: str
    created_ms: Moment
    task: str | None


class _StartpointsRecord(msgspec.Struct):
    startpoints: list[_StartpointEntry]


def startpoints_to_json(startpoints: Iterable[Startpoint]) -> dict[str, Any]:
    """Return the JSON object of a record beside the checkpoints."""
    entries = [
        _StartpointEntry(item.id, str(item.ssp), item.position, item.created_ms, item.task) for item in startpoints
    ]
    record: dict[str, Any] = msgspec.to_builtins(_StartpointsRecord(entries))
    return record


def startpoints_from_json(data: Mapping[str, Any] | None) -> tuple[Startpoint, ...]:
    """The inverse; none for None. Raises RestoreError."""
    entries = [] if data is None else _read(_StartpointsRecord, data, "its startpoints").startpoints
    try:
        return tuple(
            Startpoint(e.id, SystemStreamPartition.parse(e.input), e.position, e.created_ms, e.task) for e in entries
        )
    except ValueError as cause:
        raise RestoreError(f"the job's record of its startpoints cannot be read ({cause})") from cause


def pending(
    startpoints: Sequence[Startpoint],
    task: str,
    ssps: Iterable[SystemStreamPartition],
    checkpoint: Checkpoint | None,
    now_ms: int,
) -> dict[SystemStreamPartition, Startpoint]:
    """The startpoints to follow at the task's start: the newest of each partition, unless it was followed or has
    expired. An older one never takes its place."""
    own, followed = set(ssps), {} if checkpoint is None else checkpoint.startpoints
    # In records of older versions a followed startpoint for the task beats a newer one for all tasks beside it. Newer
    # records have no such pair: `pending_of_all` drops the older one.
    done = {each.ssp for each in startpoints if each.task == task and followed.get(each.ssp) == each.id}
    newest: dict[SystemStreamPartition, Startpoint] = {}
    for each in sorted(startpoints, key=lambda each: (each.created_ms, each.id)):
        if each.ssp in own and (each.task == task or (each.task is None and each.ssp not in done)):
            newest[each.ssp] = each
    return {ssp: each for ssp, each in newest.items() if not each.expired(now_ms) and followed.get(ssp) != each.id}


def pending_of_all(
    startpoints: Sequence[Startpoint],
    tasks: Mapping[str, Collection[SystemStreamPartition]],
    checkpoints: Mapping[str, Checkpoint | None],
    now_ms: int,
) -> list[Startpoint]:
    """The startpoints that some of the `tasks` have yet to follow.

    A startpoint for all tasks that only some of them have yet to follow becomes one for each of these tasks. Otherwise
    it would count again for a task when the result lacks the startpoint that voided it there.
    """
    of_partition = grouped((item.ssp, item) for item in startpoints)
    waiting: dict[Startpoint, list[str]] = {item: [] for item in startpoints}
    passed = set()
    for name, ssps in tasks.items():
        own = [item for ssp in ssps for item in of_partition.get(ssp, ())]
        newest = pending(own, name, ssps, checkpoints[name], now_ms)
        for item in own:
            if newest.get(item.ssp) == item:
                waiting[item].append(name)
            elif item.task in {None, name}:
                passed.add(item)
    split = {item: [replace(item, task=name) for name in names] for item, names in waiting.items()}
    return [each for item, names in split.items() for each in (names if item in passed else [item] * bool(names))]


def merged_startpoints(
    written: Sequence[Sequence[Startpoint]],
    new: Sequence[Startpoint],
    tasks: Mapping[str, Collection[SystemStreamPartition]],
    checkpoints: Mapping[str, Checkpoint | None],
    now_ms: int,
) -> list[Startpoint]:
    """The pending startpoints of the `written` records, oldest record first, and the `new` ones. An empty record has
    cleared the startpoints before it."""
    known: dict[Startpoint, None] = {}
    cleared: set[str] = set()
    for each in written:
        if not each:
            cleared.update(startpoint.id for startpoint in known)
        # Followed ones are dropped first: beside a followed one of its own, a task follows none for all tasks.
        known.update(dict.fromkeys(pending_of_all(each, tasks, checkpoints, now_ms)))
    known.update(dict.fromkeys(new))
    left = [startpoint for startpoint in known if startpoint.id not in cleared]
    # Sorted, so that processes that merge the same records agree.
    return sorted(
        pending_of_all(left, tasks, checkpoints, now_ms),
        key=lambda each: (each.created_ms, each.ssp, each.task or "", each.id),
    )


def starting_offset(
    ssp: SystemStreamPartition,
    checkpoint: Checkpoint | None,
    stream: StreamConfig,
    log: OffsetRange,
    *,
    late: bool = False,
    goes_back: bool = False,
) -> int:
    """The first offset to process.

    1. A `late` partition was added after the job's first start. Until it has a committed offset it is read from its
       oldest record, not from the stream's default, because its records were meant for the job.
    2. A committed offset is used unless `reset.offset` is set. It must lie in the log (its end included): otherwise
       retention has deleted records, or the topic was created again, and the operator has to decide.
    3. If the log's end `goes_back`, because its newest records can be deleted, a committed offset beyond the end is
       used as well.

    Raises OffsetOutOfRange for one that is not in the log any more, PositionVoid for one beyond its end: with the
    numbers and the command that repairs it.
    """
    committed = None if checkpoint is None or stream.reset_offset else checkpoint.input_offsets.get(ssp)
    if committed is None:
        return default_offset("oldest" if late and not stream.reset_offset else stream.offset_default, log)
    if committed > log.upcoming and not goes_back:
        raise PositionVoid.beyond_end(ssp, committed, log.upcoming)
    if log.oldest <= committed:
        return committed
    repair = (
        "the committed offset is outside; to start with the oldest record that is left, run the job once with "
        f"{stream.from_oldest}"
    )
    raise OffsetOutOfRange(ssp, committed, log.oldest, log.upcoming, repair)


def default_offset(default: str, log: OffsetRange) -> int:
    """The offset of `oldest`, `upcoming`, or `newest` (the last one in the log; behind a transaction it is that of the
    transaction's mark, as in Samza)."""
    if default == "oldest":
        return log.oldest
    if default == "newest":
        return max(log.oldest, log.upcoming - 1)
    return log.upcoming


Positions = dict[SystemStreamPartition, int]

_PLACES = ("oldest", "newest", "upcoming")


@dataclass(frozen=True)
class Target:
    """A position as text: oldest, newest (the last offset), upcoming, default (as at a first start), an offset, or a
    time for the first record that is not older. A time is ISO 8601 (UTC by default), or @ and milliseconds. `key`: what
    errors call it."""

    text: str
    key: str = "position"

    def offsets(
        self,
        offset_default_of: Callable[[SystemStreamPartition], str] | None,
        logs: Mapping[SystemStreamPartition, OffsetRange],
        admin_of: Callable[[str], SystemAdmin],
    ) -> Positions:
        """The offset for each partition of `logs`. `offset_default_of` a partition: the `offset.default` of its stream;
        None outside of a job, where there is no default.

        Raises ConfigError for any other text, OffsetOutOfRange.
        """
        text = self.text.strip()
        if text == "default" and offset_default_of is not None:
            return {ssp: default_offset(offset_default_of(ssp), log) for ssp, log in logs.items()}
        if text in _PLACES:
            return {ssp: default_offset(text, log) for ssp, log in logs.items()}
        if text.isdecimal() and len(text) < 20:
            return {ssp: _within(ssp, int(text), log) for ssp, log in logs.items()}
        time_ms = self._time_ms(text, "" if offset_default_of is None else "default, ")
        result: Positions = {}
        for system in sorted({ssp.system for ssp in logs}):
            result.update(admin_of(system).offsets_at([ssp for ssp in logs if ssp.system == system], time_ms))
        return {ssp: min(max(offset, logs[ssp].oldest), logs[ssp].upcoming) for ssp, offset in result.items()}

    def check(self) -> None:
        """Raise ConfigError for any other text. Whether the log has an offset is seen when it is used."""
        text = self.text.strip()
        if text != "default" and text not in _PLACES and not (text.isdecimal() and len(text) < 20):
            self._time_ms(text, "default, ")

    def _time_ms(self, text: str, default: str) -> int:
        if text.startswith("@") and text[1:].isdecimal() and len(text) < 16:
            return int(text[1:])
        try:
            time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError as cause:
            allowed = f"{', '.join(_PLACES)}, {default}an offset, a time (2026-01-31T12:00:00Z) or @MILLISECONDS"
            raise ConfigError.of(self.key, text, allowed) from cause
        return round((time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _within(ssp: SystemStreamPartition, offset: int, log: OffsetRange) -> int:
    if not log.oldest <= offset <= log.upcoming:
        raise OffsetOutOfRange(ssp, offset, *log)
    return offset
