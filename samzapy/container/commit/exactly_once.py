"""Exactly once: outputs, changelog and checkpoint of a task are one transaction.

    1  take the input offsets of the last processed message of each partition (+1)
    2  object caches -> uncommitted stores
    3  outputs into the task's open transaction, those to other systems: wait for every ack; sinks: one transaction
       each, rows + offsets
    4  changelog records into the same transaction, wait for every ack, note each changelog's last offset
    5  the checkpoint record into the same transaction, and commit it
    6  store engines: one write batch each, data + marker; only now, so a store never holds what was aborted
    7  count it

Every task has a producer of its own with a stable transactional id: a successor's `init_transactions` aborts what a
predecessor left open and refuses what it still tries. The commits of tasks that are due together run side by side.
A task that has sent nothing since its last commit opens a transaction for its checkpoint alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from samzapy.container.commit.protocol import CommitProtocol, CommitSettings, Positions
from samzapy.container.task_instance import TaskInstance
from samzapy.failpoints import reach

#: Each waits for the broker some 30 ms, and takes no time of ours meanwhile.
_MOST_COMMITS_AT_ONCE = 32


class ExactlyOnce(CommitProtocol):
    """`task.guarantee=exactly-once`; `system` is where outputs, changelogs and checkpoints all are."""

    def __init__(self, settings: CommitSettings, system: str) -> None:
        super().__init__(settings)
        self._system = system
        self._pool = ThreadPoolExecutor(_MOST_COMMITS_AT_ONCE, thread_name_prefix="samzapy-commit")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, tasks: Sequence[TaskInstance]) -> None:
        # 1  input offsets
        offsets = self._take_offsets(tasks)
        # 2  object caches -> uncommitted stores
        self._serialize(tasks)
        # 3  outputs
        self._outputs(tasks, offsets)
        # 4  changelog records
        self._acknowledge_changes(tasks)
        # 5  checkpoint records, and commit
        checkpoints = self._checkpoints(tasks, offsets)
        for task in tasks:
            self._settings.checkpoints.write({task.name: checkpoints[task.name]}, task.producer_of(self._system))
        reach("commit.5a")
        self._commit_transactions(tasks)
        reach("commit.5")
        # 6  store engines
        self._apply(tasks, offsets)
        # 7  count it
        self._count(tasks)

    def _outputs(self, tasks: Sequence[TaskInstance], offsets: Positions) -> None:
        for task in tasks:
            task.collector.hand_over()
        self._flush_outputs(tasks, inside=self._system)
        self._commit_sinks(tasks, offsets)
        reach("commit.3")

    def _commit_transactions(self, tasks: Sequence[TaskInstance]) -> None:
        commits = [self._pool.submit(task.producer_of(self._system).commit) for task in tasks]
        # Wait for all of them before one's failure ends the attempt: none may still run when clients are closed.
        failures = [commit.exception() for commit in commits]
        for failure in failures:
            if failure is not None:
                raise failure


class EffectivelyOnce(ExactlyOnce):
    """`task.guarantee=effectively-once`: changelog and checkpoint are one transaction, so state and offsets agree;
    outputs are acknowledged before it, carry their input's id, and repeat under the same id after a crash."""

    def _outputs(self, tasks: Sequence[TaskInstance], offsets: Positions) -> None:
        self._acknowledge_outputs(tasks, offsets)
