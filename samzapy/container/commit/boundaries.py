"""Where a commit may stand: between the groups of records that a system reads again as a whole.

The rows that a table has of one second are such a group: which they are is only known while they are read together. A
commit in the middle of one would have a restart repeat its first part, or miss some of the rest, so a commit that comes
due there waits for the end of the group. Meanwhile nothing else is polled, so that all inputs come to such a place together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.tasks.task_instance import TaskInstance


class Boundaries:
    """Knows which partitions are in the middle of a group; all the others, in nearly every job, cost it one call a batch."""

    def __init__(self, consumers: Mapping[str, SystemConsumer]) -> None:
        """`consumers` by system."""
        self._consumers = consumers
        self._starts: Mapping[SystemStreamPartition, int] = {}
        self._halved: set[SystemStreamPartition] = set()

    def start(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """A start in the middle of a group repeats it, however long it takes until it comes: nothing waits for that."""
        self._starts = dict(offsets)

    @property
    def halved(self) -> bool:
        """Whether the polled messages end in the middle of a group."""
        return bool(self._halved)

    def behind(self, ssp: SystemStreamPartition, offset: int) -> int:
        """The first offset from `offset` on where a commit may stand."""
        return self._consumers[ssp.system].boundary(ssp, offset)

    def polled(self, batches: Iterable[RecordBatch]) -> bool:
        """Note where batches end; whether that changes which partitions wait."""
        changed = False
        for batch in batches:
            upcoming = batch.offsets[-1] + 1
            halved = self.behind(batch.ssp, upcoming) != upcoming
            if halved != (batch.ssp in self._halved):
                (self._halved.add if halved else self._halved.discard)(batch.ssp)
                changed = True
        return changed

    def ended(self, ssp: SystemStreamPartition) -> bool:
        """Note that a partition brings nothing more; whether that changes which partitions wait."""
        changed = ssp in self._halved
        self._halved.discard(ssp)
        return changed

    def waiting(self) -> set[SystemStreamPartition]:
        """The partitions that wait until the groups that were polled in part have come whole."""
        return set(self._starts) - self._halved if self._halved else set()

    def within(self, positions: Iterable[Mapping[SystemStreamPartition, int]]) -> bool:
        """Whether one of these positions is in the middle of a group."""
        return any(
            self.behind(ssp, offset) != offset and offset != self._starts.get(ssp)
            for offsets in positions
            for ssp, offset in offsets.items()
        )


class BoundedCommits:
    """The commits of a run loop: one that may not stand where it comes due is made as soon as it may."""

    def __init__(self, committer: CommitProtocol, boundaries: Boundaries, tasks: Sequence[TaskInstance]) -> None:
        self._committer = committer
        self._boundaries = boundaries
        self._tasks = tasks
        self.owed = False

    @property
    def possible(self) -> bool:
        """Whether a commit of all tasks may stand where they are."""
        return not self._boundaries.within(task.offsets for task in self._tasks)

    def before(self, ends: Mapping[SystemStreamPartition, int]) -> None:
        """As that of the protocol: a group of which a part has been polled counts as polled."""
        behind = self._boundaries.behind
        self._committer.before(self._tasks, {ssp: behind(ssp, end) for ssp, end in ends.items()})

    def commit(self) -> None:
        """Commit all tasks now, or when it is possible."""
        if self.possible:
            self._committer.commit(self._tasks)
        else:
            self.owed = True

    def leave_out(self, why: str) -> None:
        """As that of the protocol."""
        self._committer.leave_out(why)

    def catch_up(self) -> None:
        """Make the commit that is owed, if it is possible."""
        if self.owed and self.possible:
            self.owed = False
            self._committer.commit(self._tasks)
