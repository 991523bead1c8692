"""Reads the commits of one task that the checkpoint topic of its job still has.

1. A checkpoint names the input positions and the changelog offsets of one commit, so it alone records the offset of a
   state.
2. The topic is compacted: at the end only the newest checkpoint of a task is left. The records of its last segment,
   which is never compacted, are the history that a replay can go back to. Checkpoints in files have no history.
3. A superseded run may have written after its successor. Its records have a lower epoch and are passed over, as at a
   start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange
from samzapy.checkpoint import codec
from samzapy.checkpoint.codec import CHECKPOINT, decode_key
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import checkpoint_stream
from samzapy.errors import EnvironmentFailure, StateLost
from samzapy.replay.feed import Place
from samzapy.storage.changelog.reading import scan
from samzapy.system.clients import SystemClients


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
            f"is {oldest.where}, with "
            f"{place.ssp} at {stands}; {FROM_EMPTY}"
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
        found = checkpoints.read([task])[task]
        return History([] if found is None else [Commit(found, where)], where)
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
    admin = clients.admin(ssp.system)
    return OffsetRange(admin.offsets([ssp])[ssp].oldest, admin.ends([ssp], committed=True)[ssp])
