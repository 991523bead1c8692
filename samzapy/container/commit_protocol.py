"""The commit of a container: each step is durable before the next begins, so a crash after any of them loses nothing.

    1  take the input offsets of the last processed message of each partition (+1), of every task with code that has run
    2  object caches -> uncommitted stores (serialize once a key)
    3  outputs: wait for every ack, before the state says that they were sent; with exactly-once outputs to the
       transaction's system join it instead; sinks: one transaction each, rows + offsets
    4  changelog records: send, wait for every ack, note each changelog's last offset, and check for other writers
    5  checkpoint records {input offsets, changelog offsets, epoch, clock}; commit the transaction of 4 and 5
    6  store engines: one write batch each, data + marker; only now, so a store never holds aborted changes
    7  count it

A commit is the container's: one transaction holds the state of all its tasks, whichever task asked for it. The
guarantee says where outputs (step 3) and positions are; `AtMostOnce` commits the positions of a poll first. Where no
transaction carries the state, steps 4 and 5 are awaited one after the other (`StateWriter` has both ways).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.context import MetricsRegistry
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.config.task import Guarantee
from samzapy.container.outputs.producers import TaskProducers
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import ForeignRecords
from samzapy.failpoints import reach

logger = logging.getLogger(__name__)

#: Next offsets to process, by task name.
Positions = Mapping[str, Mapping[SystemStreamPartition, int]]

#: The bounds of the buckets for the time of a commit, and of its steps, in seconds.
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class StepTimes:
    """The time of a commit and of its steps, in the timers and histograms `commit.commit` and `commit.step.NAME`."""

    def __init__(self, metrics: MetricsRegistry, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._since = 0.0

    def begin(self) -> None:
        self._since = self._clock.monotonic()

    def end(self, step: str) -> None:
        now = self._clock.monotonic()
        self.update(f"step.{step}", now - self._since)
        self._since = now

    def update(self, name: str, seconds: float) -> None:
        self._metrics.timer("commit", name).update(seconds)
        self._metrics.histogram("commit", name, SECONDS).update(seconds)


class StateWriter:
    """Steps 4 and 5 of a commit.

    With a transaction, one of one producer holds the changelog and checkpoint records of all tasks of the container.
    Only the task writes to its changelog partition, so its last record in the open transaction is where the partition
    ends. One request for all partitions finds that; the report of each single record would cost half as much as the
    record. Records of another writer before, in between or behind show as a gap before the task's first one
    (`ChangelogEnd.sent`).

    Checkpoints of an at-least-once job without changelogs go without it: a late one of a superseded run has a lower
    epoch, and at worst repeats messages.

    Without a transaction a crash between steps 4 and 5 leaves changes without their positions, so state may hold inputs
    twice; and an earlier run that is still at work may overwrite this run's records.
    """

    def __init__(
        self,
        checkpoints: CheckpointManager,
        producers: TaskProducers,
        ends_of: Callable[[set[SystemStreamPartition]], Mapping[SystemStreamPartition, int]],
        changelog_systems: Collection[str],
        confirm: Callable[[], object],
        guarantee: Guarantee,
    ) -> None:
        """`ends_of` asks where partitions end, `changelog_systems` have the changelogs of the job's stores. `confirm`
        asks the coordinator for the container's owner, and raises if that is another attempt."""
        self._checkpoints = checkpoints
        self._producer_of = producers.state
        self._transaction = producers.transaction
        self._ends_of = ends_of
        self._systems = sorted(changelog_systems)
        self._carries_checkpoints = bool(changelog_systems) or guarantee is not Guarantee.AT_LEAST_ONCE
        self._confirm = confirm
        #: Whether changelog records and checkpoint become visible together.
        self.atomic = producers.transaction is not None

    def acknowledge_changes(self, tasks: Sequence[TaskInstance]) -> None:
        """Send the tasks' changes to their changelogs and wait for every ack. Raises ForeignRecords when another
        writer is there."""
        try:
            ends = {} if self.atomic else self._checked_ends(tasks, set())
            for task in tasks:
                task.stores.send_changes(self._producer_of)
            sent = {system: self._producer_of(system).flush() for system in self._systems}
            if self.atomic:
                ends = self._checked_ends(tasks, {ssp for task in tasks for ssp in task.stores.changed()})
            for task in tasks:
                task.changelog_offsets = task.stores.changelog_offsets(
                    lambda ssp: ends[ssp] - 1 if self.atomic else sent[ssp.system].get(ssp[1:])
                )
        except ForeignRecords as foreign:
            # Records of a successor are not foreign: `confirm` raises then, and this attempt ends.
            self._confirm()
            for task in tasks:
                task.stores.refuse(foreign.ssp, foreign)
            raise

    def _checked_ends(
        self, tasks: Sequence[TaskInstance], changed: set[SystemStreamPartition]
    ) -> Mapping[SystemStreamPartition, int]:
        """Where the tasks' changelogs end now, by one request; those without records of this commit are checked."""
        known = {end.ssp: end for task in tasks for end in task.stores.changelog_ends()}
        result = self._ends_of(changed | known.keys())
        for ssp, end in known.items():
            if ssp not in changed:
                end.check(result[ssp])
        return result

    def write_checkpoints(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Make the checkpoints, by task name, part of the transaction, or durable."""
        self._checkpoints.write(checkpoints, self._transaction if self._carries_checkpoints else None)

    def write_ahead(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Make the checkpoints durable, outside of any transaction."""
        self._checkpoints.write(checkpoints)

    def commit(self, tasks: Sequence[TaskInstance]) -> None:
        """Make everything durable and visible."""
        if self._transaction is not None:
            self._transaction.commit()
        for task in tasks:
            task.stores.changes_committed(int(self.atomic))


class CommitProtocol:
    """Commits tasks of one container. Each step ends in the fail point `commit.N`.

    A failure in any step ends the attempt: nothing after it is committed, and the next attempt starts from the last
    checkpoint.
    """

    def __init__(
        self,
        state: StateWriter,
        *,
        epoch: int,
        clock: Clock,
        metrics: MetricsRegistry,
        must_own: Callable[[], object],
        outputs_inside: str | None = None,
        epochs: Callable[[], Mapping[SystemStreamPartition, int]] = dict,
    ) -> None:
        """`outputs_inside`: the system with outputs in the transaction of the state, None if all outputs are
        acknowledged before it. `must_own` raises TaskMigrated when the lease is lost; it is asked right before a
        checkpoint, since a late one would undo a successor's. `epochs` gives the leader epochs of what was read."""
        self._state = state
        self._epoch = epoch
        self._clock = clock
        self._metrics = metrics
        self._must_own = must_own
        self._outputs_inside = outputs_inside
        self._epochs = epochs
        self._commits = metrics.counter("commit", "commits")
        self._steps = StepTimes(metrics, clock)
        self.count = 0
        #: By task, the positions of its last checkpoint.
        self.committed: dict[str, Mapping[SystemStreamPartition, int]] = {}

    def commit(self, tasks: Iterable[TaskInstance], *, force: bool = False) -> None:
        """Commit the `tasks` that have run user code since their last commit; all of them with `force`."""
        due = []
        tasks = list(tasks)
        for task in tasks:
            task.take_checkpoint()
            if force or task.touched:
                due.append(task)
            else:
                task.stores.flush_if_due()
        if due:
            self._must_own()
            started = self._clock.monotonic()
            self._run(due)
            self._steps.update("commit", self._clock.monotonic() - started)
        for task in tasks:
            task.keep_checkpoint()

    def leave_out(self, why: str) -> None:
        logger.warning("A commit is left out: %s", why)
        self._metrics.counter("commit", "commits-skipped").inc()

    def finish(self, tasks: Sequence[TaskInstance]) -> None:
        self.commit(tasks, force=True)

    def _run(self, tasks: Sequence[TaskInstance]) -> None:
        state, steps = self._state, self._steps
        steps.begin()
        # 1  input offsets
        offsets = {task.name: task.committable() for task in tasks}
        reach("commit.1")
        steps.end("offsets")
        # 2  object caches -> uncommitted stores
        for task in tasks:
            task.serialize()
        reach("commit.2")
        steps.end("serialize")
        # 3  outputs
        self._outputs(tasks, offsets)
        steps.end("outputs")
        # 4  changelog records
        state.acknowledge_changes(tasks)
        reach("commit.4")
        steps.end("changelog")
        # 5  checkpoint records, and commit
        checkpoints = self._checkpoints(tasks, self._positions(tasks, offsets))
        state.write_checkpoints(checkpoints)
        reach("commit.5a")
        self._must_own()
        state.commit(tasks)
        reach("commit.5")
        steps.end("checkpoint")
        # 6  store engines
        for task in tasks:
            task.stores.apply(task.changelog_offsets, offsets[task.name])
        reach("commit.6")
        steps.end("stores")
        # 7  count it
        self.committed.update({name: checkpoint.input_offsets for name, checkpoint in checkpoints.items()})
        for task in tasks:
            task.committed(self._metrics)
        self.count += 1
        self._commits.inc()
        reach("commit.7")

    def _positions(self, tasks: Sequence[TaskInstance], offsets: Positions) -> Positions:
        """The input offsets for the checkpoints, when `offsets` are processed."""
        return offsets

    def _outputs(self, tasks: Sequence[TaskInstance], offsets: Positions) -> None:
        """Wait for the acks of the tasks' outputs, except for outputs inside the transaction, which waits for them
        itself. Then commit the sinks one after the other: a connection belongs to the thread that has made it."""
        flushed = set()
        for task in tasks:
            task.collector.hand_over()
        for task in tasks:
            for system in sorted(task.collector.systems):
                producer = task.collector.producer_of(system)
                if system != self._outputs_inside and id(producer) not in flushed:
                    producer.flush()
                    flushed.add(id(producer))
        reach("commit.3a")
        for task in tasks:
            if task.has_sinks:
                task.sinks.commit(offsets[task.name])
        reach("commit.3")

    def _checkpoints(self, tasks: Sequence[TaskInstance], positions: Positions) -> dict[str, Checkpoint]:
        self._must_own()
        epoch, now, atomic = self._epoch, self._clock.wall_ms(), self._state.atomic
        read_in = self._epochs()
        return {
            task.name: task.checkpoint(positions[task.name], epoch, now, atomic=atomic, read_in=read_in)
            for task in tasks
        }


class AtMostOnce(CommitProtocol):
    """The offsets of a poll are committed before its messages are processed, so none is ever repeated.

    before a poll is processed
        5  checkpoint records with the offsets after the poll, wait for the ack, check that it still owns the container
    at a commit
        1 to 7 as always; the checkpoint of step 5 keeps the positions that are ahead of the processed messages

    A crash loses the polled messages that were not finished, and the changes and outputs since the last commit.

    The positions go ahead without a transaction, which takes four to nine times as long as the ack (a broker on the
    same machine: 4.9 ms to 0.6 with 4 tasks, 6.3 ms to 1.4 with 200). So no broker refuses the positions of a
    superseded run:

    1. A successor becomes the owner, waits a lease, and then reads where to begin.
    2. This run checks the owner twice per lease. If the ack comes within a lease of such a check, the successor has
       read these positions, or will. Otherwise, as after a stop of driver and container together, it checks again
       before it processes anything. The coordinator's answer is not enough: its driver may not have checked since the
       stop.
    3. A reader of checkpoints skips checkpoints of an earlier epoch.
    """

    def __init__(self, state: StateWriter, check_owner: Callable[[], object], lease_s: float, **more: Any) -> None:
        """`check_owner` raises JobTakenOver when a newer run is the owner. `lease_s`: as long as a successor waits, in
        seconds."""
        super().__init__(state, **more)
        self._check_owner = check_owner
        self._period_s = lease_s / 2
        self._checked_at = float("-inf")
        self._ahead: dict[str, dict[SystemStreamPartition, int]] = {}

    def write_ahead(self, tasks: Sequence[TaskInstance], ends: Mapping[SystemStreamPartition, int]) -> None:
        """Called before a poll is processed: `ends` are the offsets after its last messages."""
        polled = [task for task in tasks if not ends.keys().isdisjoint(task.offsets)]
        for task in polled:
            self._ahead[task.name] = {
                ssp: max(offset, ends.get(ssp, offset)) for ssp, offset in self._furthest(task).items()
            }
        # 5  checkpoint records, ahead of the messages
        checkpoints = self._checkpoints(polled, self._ahead)
        reach("ahead.1")
        self._state.write_ahead(checkpoints)
        # A successor that read the checkpoints before that ack begins at this poll as well.
        self._must_own()
        now = self._clock.monotonic()
        if now - self._checked_at > self._period_s:
            self._check_owner()
            self._checked_at = now
        reach("commit.5")

    def finish(self, tasks: Sequence[TaskInstance]) -> None:
        """Move the positions back to the processed messages, since nothing runs now: a graceful stop loses nothing."""
        self._ahead.clear()
        super().finish(tasks)

    def _positions(self, tasks: Sequence[TaskInstance], offsets: Positions) -> Positions:
        # Before the first poll a commit says where the job begins; later it must not take positions back.
        return {task.name: {**offsets[task.name], **self._furthest(task)} for task in tasks}

    def _furthest(self, task: TaskInstance) -> dict[SystemStreamPartition, int]:
        """The furthest offsets of the task's checkpoints: processed, or written ahead."""
        ahead = self._ahead.get(task.name, {})
        return {ssp: max(offset, ahead.get(ssp, offset)) for ssp, offset in task.committable().items()}
