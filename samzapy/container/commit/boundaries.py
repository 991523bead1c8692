"""Keeps commits out of the groups of records that a system reads again as a whole.

The rows of one second of a table are such a group: only a read of the whole second finds all of them. After a commit inside
a group a restart would repeat its first part, or miss some of the rest. So such a commit waits for the end of the group.
Meanwhile no other partition is polled, so that all inputs reach a boundary together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.tasks.task_instance import TaskInstance


class Boundaries:
    """Knows the partitions that are inside a group. A system without groups costs one call a batch."""

    def __init__(self, consumers: Mapping[str, SystemConsumer]) -> None:
        """`consumers` by system."""
        self._consumers = consumers
        self._starts: Mapping[SystemStreamPartition, int] = {}
        self._halved: set[SystemStreamPartition] = set()

    def start(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """A start inside a group repeats the group. The first commit does not wait for that."""
        self._starts = dict(offsets)

    @property
    def halved(self) -> bool:
        """Whether the polled messages end inside a group."""
        return bool(self._halved)

    def behind(self, ssp: SystemStreamPartition, offset: int) -> int:
        """The first offset from `offset` on where a commit may stand."""
        return self._consumers[ssp.system].boundary(ssp, offset)

    def polled(self, batches: Iterable[RecordBatch]) -> bool:
        """Note where batches end; returns whether other partitions wait now."""
        changed = False
        for batch in batches:
            upcoming = batch.offsets[-1] + 1
            halved = self.behind(batch.ssp, upcoming) != upcoming
            if halved != (batch.ssp in self._halved):
                (self._halved.add if halved else self._halved.discard)(batch.ssp)
                changed = True
        return changed

    def ended(self, ssp: SystemStreamPartition) -> bool:
        """Note that a partition has ended; returns whether other partitions wait now."""
        changed = ssp in self._halved
        self._halved.discard(ssp)
        return changed

    def waiting(self) -> set[SystemStreamPartition]:
        """The partitions that wait until the groups that were polled in part are complete."""
        return set(self._starts) - self._halved if self._halved else set()

    def within(self, positions: Iterable[Mapping[SystemStreamPartition, int]]) -> bool:
        """Whether one of these positions is inside a group."""
        return any(
            self.behind(ssp, offset) != offset and offset != self._starts.get(ssp)
            for offsets in positions
            for ssp, offset in offsets.items()
        )


class BoundedCommits:
    """The commits of a run loop. A commit that comes due inside a group is made at the group's end."""

    def __init__(self, committer: CommitProtocol, boundaries: Boundaries, tasks: Sequence[TaskInstance]) -> None:
        self._committer = committer
        self._boundaries = boundaries
        self._tasks = tasks
        self.owed = False

    @property
    def possible(self) -> bool:
        """Whether all tasks are outside of groups, so that they can commit."""
        return not self._boundaries.within(task.offsets for task in self._tasks)

    def before(self, ends: Mapping[SystemStreamPartition, int]) -> None:
        """Like the protocol's; a partly polled group counts as polled."""
        behind = self._boundaries.behind
        self._committer.before(self._tasks, {ssp: behind(ssp, end) for ssp, end in ends.items()})

    def commit(self) -> None:
        """Commit all tasks now, or when it is possible."""
        self.owed = not self.possible
        if not self.owed:
            self._committer.commit(self._tasks)

    def leave_out(self, why: str) -> None:
        """Like the protocol's."""
        self._committer.leave_out(why)

    def catch_up(self) -> None:
        """Make the commit that is owed, if it is possible."""
        if self.owed:
            self.commit()
