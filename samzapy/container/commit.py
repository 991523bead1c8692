"""The commit, the only writer of checkpoints and changelogs.

at-least-once, in this order, each step durable before the next begins; a crash after any of them loses nothing:

    1  take the input offsets of the last processed message of each partition (+1)
    2  object caches -> uncommitted stores (serialize once a key)
    3  outputs: wait for every ack            (so no state ever says "sent" about a message that was not)
    4  changelog records: send, wait for every ack, note each changelog's last offset from the delivery reports
    5  checkpoint records {input offsets, changelog offsets, epoch, clock}, wait for the ack
    6  store engines: one write batch each, data + marker
    7  count it

The tasks of a container that are due together share the waits of steps 3, 4 and 5. A failure in any step ends the
attempt: nothing after it is committed, and the next attempt starts from the last checkpoint.
Each step ends in a fail point `commit.N`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.system import SystemProducer
from samzapy.clock import Clock
from samzapy.container.task_instance import TaskInstance
from samzapy.failpoints import reach


class Committer:
    """Commits tasks of one container."""

    def __init__(
        self,
        producer_of: Callable[[str], SystemProducer],
        changelog_systems: frozenset[str],
        checkpoints: CheckpointManager,
        epoch: int,
        clock: Clock,
        metrics: MetricsRegistry,
    ) -> None:
        """`producer_of` gives the container's producer of a system; `changelog_systems` hold the stores' changelogs."""
        self._producer_of = producer_of
        self._changelog_systems = changelog_systems
        self._checkpoints = checkpoints
        self._epoch = epoch
        self._clock = clock
        self._metrics = metrics
        self._commits = metrics.counter("commit", "commits")
        self._commit_time = metrics.timer("commit", "commit")
        self.count = 0

    def commit(self, tasks: Iterable[TaskInstance], *, force: bool = False) -> None:
        """Commit those of `tasks` whose code has run since their last commit; all of them with `force`."""
        due = [task for task in tasks if force or task.touched]
        if due:
            started = self._clock.monotonic()
            self._at_least_once(due)
            self._commit_time.update(self._clock.monotonic() - started)

    def _at_least_once(self, tasks: Sequence[TaskInstance]) -> None:
        # 1  input offsets
        offsets = {task.name: dict(task.offsets) for task in tasks}
        reach("commit.1")
        # 2  object caches -> uncommitted stores
        for task in tasks:
            task.stores.flush()
        reach("commit.2")
        # 3  outputs
        for task in tasks:
            task.collector.hand_over()
        self._flush({system for task in tasks for system in task.collector.systems})
        reach("commit.3")
        # 4  changelog records
        for task in tasks:
            task.stores.send_changes(self._producer_of)
        self._flush(self._changelog_systems)
        for task in tasks:
            task.changelog_offsets = task.stores.changelog_offsets(self._producer_of)
        reach("commit.4")
        # 5  checkpoint records
        now = self._clock.wall_ms()
        self._checkpoints.write(
            {task.name: Checkpoint(offsets[task.name], task.changelog_offsets, self._epoch, now) for task in tasks}
        )
        reach("commit.5")
        # 6  store engines
        for task in tasks:
            task.stores.apply(task.changelog_offsets, offsets[task.name])
        reach("commit.6")
        # 7  count it
        for task in tasks:
            task.touched = False
            task.publish(self._metrics)
        self.count += 1
        self._commits.inc()
        reach("commit.7")

    def _flush(self, systems: Iterable[str]) -> None:
        for system in sorted(systems):
            self._producer_of(system).flush()
