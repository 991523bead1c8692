"""At most once: the offsets of a poll are committed before its messages are processed, so none is ever repeated.

before a poll is processed
    5  checkpoint records with the offsets after the poll, wait for the ack
at a commit
    2  object caches -> uncommitted stores
    3  outputs: wait for every ack; sinks: one transaction each, rows + offsets
    4  changelog records: send, wait for every ack
    6  store engines: one write batch each, data + marker
    7  count it

A crash loses what was polled and not finished, and what the stores and the outputs' queues held since the last commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.commit.protocol import CommitProtocol, CommitSettings
from samzapy.container.task_instance import TaskInstance
from samzapy.failpoints import reach


class AtMostOnce(CommitProtocol):
    """`task.guarantee=at-most-once`."""

    def __init__(self, settings: CommitSettings) -> None:
        super().__init__(settings)
        self._ahead = False

    def before(self, tasks: Sequence[TaskInstance], ends: Mapping[SystemStreamPartition, int]) -> None:
        polled = [task for task in tasks if any(ssp in task.offsets for ssp in ends)]
        offsets = {
            task.name: {ssp: max(offset, ends.get(ssp, offset)) for ssp, offset in task.committable().items()}
            for task in polled
        }
        self._ahead = True
        # 5  checkpoint records, ahead of the messages
        self._settings.checkpoints.write(self._checkpoints(polled, offsets))
        reach("commit.5")

    def finish(self, tasks: Sequence[TaskInstance]) -> None:
        """Nothing runs any more, so the positions may go back to what was processed: a graceful stop loses nothing."""
        super().finish(tasks)
        self._settings.checkpoints.write(self._checkpoints(tasks, {task.name: task.committable() for task in tasks}))

    def _run(self, tasks: Sequence[TaskInstance]) -> None:
        offsets = self._take_offsets(tasks)
        # 2  object caches -> uncommitted stores
        self._serialize(tasks)
        # 3  outputs
        self._acknowledge_outputs(tasks, offsets)
        # 4  changelog records
        self._acknowledge_changes(tasks)
        if not self._ahead:
            # Before the first poll a commit says where the job begins; later it would take back what is ahead.
            self._settings.checkpoints.write(self._checkpoints(tasks, offsets))
        # 6  store engines
        self._apply(tasks, offsets)
        # 7  count it
        self._count(tasks)
