"""Reads the commits of one task that the checkpoint topic of its job still has, and decides whether a changelog
partition still holds the state of one of them.

1. A checkpoint names the input positions and the changelog offsets of one commit, so it alone records the offset of a
   state.
2. The topic is compacted: at the end only the newest checkpoint of a task is left. The records of its last segment,
   which is never compacted, are the history that a replay can go back to. Checkpoints in files have no history.
3. A superseded run may have written after its successor. Its records have a lower epoch and are passed over, as at a
   start.

The state of a commit is the fold of the records up to its last one, at offset `last`. Compaction removes a record once
the same key has a newer one. That is harmless if the newer one is at or before `last`, and falsifies the state if it is
after. The log does not show which case it was. These facts are known:

1. Compaction always covers a beginning of the log: of the records before some offset D it keeps the newest of each key.
   So the records of one key are removed oldest first. A deletion that is the newest one goes as well,
   `delete.retention.ms` after it was first covered.
2. If no offset up to `last` is missing, except those at which a known transaction ended, nothing was removed.
3. If some key has two records at or before `last`, D is not behind the second of them. So everything that was removed
   had a newer record, or was a deletion, before D.
4. Otherwise the keys decide. One without a record after `last` has its newest record at or before it, and that one is
   there, by 1. One with records on both sides is there with its newest one at or before `last`, by 1. Keys with a
   record after `last` and none before are in doubt: they are new, or compaction has removed their earlier records. For
   this no deletion after `last` may have been removed: the commit is younger than `delete.retention.ms`, or no offset
   after it is missing.

The check reads after the restore has read. Compaction only removes, so the restore has found every record that the
check finds. While the broker is cleaning this very partition, its first segments may be further than its last ones;
sign 3 is then early. That passes with the cleaning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, SystemConsumer
from samzapy.checkpoint import codec
from samzapy.checkpoint.codec import CHECKPOINT, decode_key
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig, checkpoint_stream
from samzapy.errors import EnvironmentFailure, StateLost
from samzapy.storage.changelog.topic import scan
from samzapy.system.clients import SystemClients


class Place(NamedTuple):
    """A record of an input."""

    ssp: SystemStreamPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.ssp}@{self.offset}"


class Commit(NamedTuple):
    """A commit, and the place of its record."""

    checkpoint: Checkpoint
    where: str

    @property
    def positions(self) -> Mapping[SystemStreamPartition, int]:
        """The next offset to process, by partition."""
        return self.checkpoint.input_offsets


class History(NamedTuple):
    """The known commits of a task, the oldest first. `where` names the topic or the file that they are from."""

    commits: Sequence[Commit]
    where: str

    def before(self, place: Place) -> int:
        """The number of the newest commit that has not processed the record `place`.

        Raises EnvironmentFailure if no known commit is that old.
        """
        for number in reversed(range(len(self.commits))):
            position = self.commits[number].positions.get(place.ssp)
            if position is not None and position <= place.offset:
                return number
        if not self.commits:
            raise EnvironmentFailure(f"{place}: {self.where} has no checkpoint of the task; {FROM_EMPTY}")
        oldest = self.commits[0]
        stands = oldest.positions.get(place.ssp, "no offset")
        raise EnvironmentFailure(
            f"{place}: the checkpoints before it are gone; the oldest that {self.where} still has "
            f"is {oldest.where}, with {place.ssp} at {stands}; {FROM_EMPTY}"
        )

    def after(self, number: int) -> Sequence[Commit]:
        """The commits after that one."""
        return self.commits[number + 1 :]


#: The way out of each refusal.
FROM_EMPTY = "replay from empty stores with --from-empty --from OFFSET"


@contextmanager
def state_wanted(store: str = "") -> Iterator[None]:
    """A context in which a lost state gets the remedy of a replay: an earlier commit needs other records than the job's
    start.

    Raises EnvironmentFailure instead of StateLost.
    """
    try:
        yield
    except StateLost as cause:
        where = f"store '{store}': " if store else ""
        raise EnvironmentFailure(f"{where}{cause.lost}; choose a later offset, or {FROM_EMPTY}") from cause


def history_of(config: JobConfig, task: str, clients: SystemClients, checkpoints: CheckpointManager) -> History:
    """The known commits of a task. Raises RestoreError for records that cannot be read."""
    stream = checkpoint_stream(config)
    if stream is None:
        where = "task.checkpoint.path" if config.task.checkpoint is not None else "a job without checkpoints"
        result = checkpoints.read([task])[task]
        return History([] if result is None else [Commit(result, where)], where)
    ssp = SystemStreamPartition(*stream, 0)
    admin = clients.admin(stream.system)
    if admin.describe(stream.stream) is None:
        return History([], str(stream))
    log = committed_range(clients, ssp)
    commits: list[Commit] = []
    with closing(clients.consumer(stream.system)) as consumer:
        for batch in scan(consumer, ssp, log, SYSTEM_CLOCK):
            for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                where = f"{ssp}@{offset}"
                if value is None or decode_key(key, config.grouper, where) != (CHECKPOINT, task):
                    continue
                checkpoint = codec.decode(value, where)
                if not commits or checkpoint.epoch >= commits[-1].checkpoint.epoch:
                    commits.append(Commit(checkpoint, where))
    return History(commits, str(stream))


def committed_range(clients: SystemClients, ssp: SystemStreamPartition) -> OffsetRange:
    """The records of a partition that a reader of committed records gets, without waiting for an open transaction."""
    return clients.admin(ssp.system).offsets([ssp], committed=True)[ssp]


#: Keys that are remembered in the search for one that was written twice.
_REMEMBERED = 1_000_000


class CommittedRecords(NamedTuple):
    """The records of a changelog partition that make the state of a commit: from `start` (0, or the offset after a
    snapshot) to `last`. `no_records`: offsets at which known transactions ended."""

    ssp: SystemStreamPartition
    start: int
    last: int
    no_records: Collection[int]


class _Gaps:
    """The first missing offset that is not an end of a known transaction."""

    def __init__(self, start: int, no_records: Collection[int]) -> None:
        """`start`: the first offset to expect; `no_records`: the offsets of ends of transactions."""
        self._expected = start
        self._no_records = no_records
        self.first: int | None = None

    def pass_to(self, offset: int) -> None:
        """Note that nothing is between the last record and `offset`."""
        if self.first is None:
            self.first = next((item for item in range(self._expected, offset) if item not in self._no_records), None)
        self._expected = max(self._expected, offset)

    def take(self, batch: RecordBatch) -> None:
        """Accept the records of a batch."""
        offsets = batch.offsets
        if offsets[-1] - offsets[0] + 1 == len(offsets):
            self.pass_to(offsets[0])
            self._expected = offsets[-1] + 1
            return
        for offset in offsets:
            self.pass_to(offset)
            self._expected = offset + 1


def lost_state(
    consumer_of: Callable[[str], SystemConsumer], state: CommittedRecords, log: OffsetRange, *, deletions_kept: bool
) -> str | None:
    """The reason why the records may differ from the commit's, None if they are the same.

    `log`: the committed range now. `deletions_kept`: the commit is younger than `delete.retention.ms`. Over a snapshot
    nothing may be missing: a deletion that was removed would leave the snapshot's entry.
    """
    ssp, start, last, no_records = state
    if last < start:
        return None
    if log.oldest > start:
        return f"changelog {ssp} begins at offset {log.oldest}: the records before it were deleted"
    in_doubt: set[bytes | None] = set()
    later = _Gaps(last + 1, no_records)
    with closing(consumer_of(ssp.system)) as consumer:
        for batch in scan(consumer, ssp, OffsetRange(last + 1, log.upcoming), SYSTEM_CLOCK):
            later.take(batch)
            in_doubt.update(batch.keys)
    later.pass_to(log.upcoming)
    gaps = _Gaps(start, no_records)
    seen: set[bytes | None] = set()
    written_twice = False
    with closing(consumer_of(ssp.system)) as consumer:
        for batch in scan(consumer, ssp, OffsetRange(start, min(last + 1, log.upcoming)), SYSTEM_CLOCK):
            gaps.take(batch)
            keys = set(batch.keys)
            in_doubt -= keys
            if not written_twice and len(seen) < _REMEMBERED:
                written_twice = len(keys) < len(batch.keys) or not seen.isdisjoint(keys)
                seen |= keys
    gaps.pass_to(last + 1)
    if gaps.first is None:
        return None
    if start:
        return (
            f"changelog {ssp}@{gaps.first} is missing between the snapshot, up to offset {start - 1}, and offset {last}"
        )
    if written_twice or (not in_doubt and (deletions_kept or later.first is None)):
        return None
    why = (
        f"{len(in_doubt)} keys have records after it and none before" if in_doubt else "deletions after it have expired"
    )
    lost = f"compaction has gone past changelog {ssp}@{last}, the commit's last record"
    return f"{lost}: offset {gaps.first} is missing, and {why}"
