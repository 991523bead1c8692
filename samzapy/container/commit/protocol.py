"""What the run loop asks of a commit protocol, and the steps that the protocols share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.container.task_instance import TaskInstance
from samzapy.failpoints import reach

#: Next offsets to process, by task name.
Positions = Mapping[str, Mapping[SystemStreamPartition, int]]


@dataclass(frozen=True)
class CommitSettings:
    """What every protocol needs. `changelog_systems` hold the changelogs of the job's stores. `must_own` raises
    TaskMigrated when the lease is lost; asked right before a checkpoint, since a late one would undo a successor's."""

    checkpoints: CheckpointManager
    changelog_systems: frozenset[str]
    epoch: int
    clock: Clock
    metrics: MetricsRegistry
    must_own: Callable[[], object]


class CommitProtocol(ABC):
    """Commits tasks of one container. Each step of a protocol ends in the fail point `commit.N`.

    A failure in any step ends the attempt: nothing after it is committed, and the next attempt starts from the last
    checkpoint.
    """

    def __init__(self, settings: CommitSettings) -> None:
        self._settings = settings
        self._commits = settings.metrics.counter("commit", "commits")
        self._commit_time = settings.metrics.timer("commit", "commit")
        self.count = 0

    def commit(self, tasks: Iterable[TaskInstance], *, force: bool = False) -> None:
        """Commit those of `tasks` whose code has run since their last commit; all of them with `force`."""
        due = []
        tasks = list(tasks)
        for task in tasks:
            task.take_checkpoint()
            if force or task.touched:
                due.append(task)
            else:
                task.stores.flush_if_due()
        if due:
            self._settings.must_own()
            started = self._settings.clock.monotonic()
            self._run(due)
            self._commit_time.update(self._settings.clock.monotonic() - started)
        for task in tasks:
            task.keep_checkpoint()

    def before(self, tasks: Sequence[TaskInstance], ends: Mapping[SystemStreamPartition, int]) -> None:  # noqa: B027
        """Called with every poll before it is processed: `ends` are the offsets after its last messages."""

    def finish(self, tasks: Sequence[TaskInstance]) -> None:
        """The last commit of a graceful stop."""
        self.commit(tasks, force=True)

    def close(self) -> None:  # noqa: B027
        """Release what the protocol holds; it commits nothing."""

    @abstractmethod
    def _run(self, tasks: Sequence[TaskInstance]) -> None:
        """The numbered steps."""

    def _take_offsets(self, tasks: Sequence[TaskInstance]) -> Positions:
        offsets = {task.name: task.committable() for task in tasks}
        reach("commit.1")
        return offsets

    def _serialize(self, tasks: Sequence[TaskInstance]) -> None:
        for task in tasks:
            task.serialize()
        reach("commit.2")

    def _acknowledge_outputs(self, tasks: Sequence[TaskInstance], offsets: Positions) -> None:
        for task in tasks:
            task.collector.hand_over()
        self._flush_outputs(tasks)
        self._commit_sinks(tasks, offsets)
        reach("commit.3")

    @staticmethod
    def _flush_outputs(tasks: Sequence[TaskInstance], inside: str | None = None) -> None:
        """Wait for what the tasks have sent, but not to the system `inside`, whose transaction waits for it."""
        flushed = set()
        for task in tasks:
            for system in sorted(task.collector.systems):
                producer = task.collector.producer_of(system)
                if system != inside and id(producer) not in flushed:
                    producer.flush()
                    flushed.add(id(producer))

    def _commit_sinks(self, tasks: Sequence[TaskInstance], offsets: Positions) -> None:
        """One after the other: a connection belongs to the thread that has made it."""
        reach("commit.3a")
        for task in tasks:
            task.commit_sinks(offsets[task.name])

    def _acknowledge_changes(self, tasks: Sequence[TaskInstance]) -> None:
        for task in tasks:
            task.stores.send_changes(task.producer_of)
        producers = {
            id(producer): producer
            for task in tasks
            for producer in map(task.producer_of, sorted(self._settings.changelog_systems))
        }
        for producer in producers.values():
            producer.flush()
        for task in tasks:
            task.changelog_offsets = task.stores.changelog_offsets(task.producer_of)
        reach("commit.4")

    def _checkpoints(self, tasks: Sequence[TaskInstance], offsets: Positions) -> dict[str, Checkpoint]:
        self._settings.must_own()
        now = self._settings.clock.wall_ms()
        return {task.name: task.checkpoint(offsets[task.name], self._settings.epoch, now) for task in tasks}

    def _apply(self, tasks: Sequence[TaskInstance], offsets: Positions) -> None:
        for task in tasks:
            task.stores.apply(task.changelog_offsets, offsets[task.name])
        reach("commit.6")

    def _count(self, tasks: Sequence[TaskInstance]) -> None:
        for task in tasks:
            task.touched = False
            task.publish(self._settings.metrics)
        self.count += 1
        self._commits.inc()
        reach("commit.7")
