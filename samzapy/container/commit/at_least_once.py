"""At least once: each step is durable before the next begins, so a crash after any of them loses nothing.

    1  take the input offsets of the last processed message of each partition (+1)
    2  object caches -> uncommitted stores (serialize once a key)
    3  outputs: wait for every ack; sinks: one transaction each, rows + offsets
                                              (so no state ever says "sent" about a message that was not)
    4  changelog records: send, wait for every ack, note each changelog's last offset from the delivery reports
    5  checkpoint records {input offsets, changelog offsets, epoch, clock}, wait for the ack
    6  store engines: one write batch each, data + marker
    7  count it

The tasks of a container that are due together share the waits of steps 3, 4 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from samzapy.container.commit.protocol import CommitProtocol
from samzapy.container.task_instance import TaskInstance
from samzapy.failpoints import reach


class AtLeastOnce(CommitProtocol):
    """`task.guarantee=at-least-once`."""

    def _run(self, tasks: Sequence[TaskInstance]) -> None:
        # 1  input offsets
        offsets = self._take_offsets(tasks)
        # 2  object caches -> uncommitted stores
        self._serialize(tasks)
        # 3  outputs
        self._acknowledge_outputs(tasks, offsets)
        # 4  changelog records
        self._acknowledge_changes(tasks)
        # 5  checkpoint records
        self._settings.checkpoints.write(self._checkpoints(tasks, offsets))
        reach("commit.5")
        # 6  store engines
        self._apply(tasks, offsets)
        # 7  count it
        self._count(tasks)
