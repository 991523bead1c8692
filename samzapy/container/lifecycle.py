"""A container's start and stop, in this order; the order is the guarantee.

start   1  an epoch from the coordinator        (the lease given to the container, and not lost by now)
        2  take over from the predecessor       (the transactional producer: abort its open transaction, and fence it)
        3  read the checkpoints                 (committed records only), and end if a newer run has taken over
        4  open the local stores, or set them aside
        5  restore them from the changelogs, and fill the stores that have streams instead
        6  init() of every task, and take-over of the sinks that it registers
        7  seek the inputs to the starting offsets; where a task has never committed, commit its position first
        8  process, and show committed entries to others
stop    1  final commit                         (left out when anything has failed)
        2  inputs
        3  close() of every task, then its sinks
        4  stores, closed to other readers, flushed to disk
        5  clients
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from samzapy import errors, native
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.clock import Clock
from samzapy.config.job import own_streams
from samzapy.container.builder import ContainerBuilder
from samzapy.container.inputs.inputs import Inputs
from samzapy.container.run_loop import RunLoop
from samzapy.container.supervision.heartbeat import Heartbeat, keep_running
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.supervision.lag import Progress, progress_of
from samzapy.container.supervision.watch import ContainerWatch
from samzapy.container.supervision.worker_process import tuned_for_messages
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.failpoints import reach
from samzapy.job.lease import NO_FACTS, ContainerLease, ContainerReport
from samzapy.queries.committed import CommittedStores, published_stores
from samzapy.storage.changelog.restore import RestoreStopped
from samzapy.storage.store import TaskStores

logger = logging.getLogger(__name__)

#: The partitions that an error names.
_MOST_PLACES = 5


class Container:
    """Runs the tasks of one container once: `run` starts, processes and stops; `stop` asks for the stop."""

    def __init__(
        self,
        builder: ContainerBuilder,
        lease: ContainerLease,
        ends: Mapping[SystemStreamPartition, int],
        clock: Clock,
        ownership: Ownership,
        *,
        on_lost: Callable[[str], None] = keep_running,
        watch: ContainerWatch | None = None,
        committed: CommittedStores | None = None,
    ) -> None:
        """`ends`: the offset before which each partition ends in a bounded run, empty for an endless one. `watch` adds
        the facts for operators to the reports. `committed` shows the stores to others while they are open."""
        self._watch = watch
        if watch is not None:
            watch.follow(self._progress)
        self._committed = committed or CommittedStores()
        self._builder = builder
        self._lease = lease
        self._ends = ends
        self._clock = clock
        self._ownership = ownership
        self._heartbeat = Heartbeat(lease, self.report, clock, on_lost, builder.purge)
        self._stores: dict[str, TaskStores] = {}
        self._tasks: list[TaskInstance] = []
        self._opened: list[Callable[[], None]] = []
        #: None before the start is complete.
        self._loop: RunLoop | None = None
        self._restoring: dict[str, tuple[int, int]] = {}

    def stop(self) -> None:
        """Ask for a commit and a graceful stop; may be called from a signal handler or another thread."""
        self._heartbeat.request_stop()

    def run(self) -> ContainerReport:
        """Run until the inputs end, the tasks vote to stop, or a stop is asked for; returns the last report. A stop
        also interrupts a restore, which continues at the next start.

        Otherwise raises the error that ended the attempt (TaskFailed, TaskMigrated, StoreError, ProducerError, ...),
        after everything is closed; nothing is committed then.
        """
        try:
            with self._heartbeat.ending_children():
                with tuned_for_messages():
                    self.start().run()
                return self.finish()
        except RestoreStopped as stopped:
            # No task was made, so there is nothing to commit.
            logger.info("%s", stopped)
            self._close_all(self._closers())
            return self._heartbeat.finish("done")
        except errors.PositionVoid as void:
            raise self._settled(void) from void
        except errors.ProducerError as failure:
            self.abandon()
            lost = self._heartbeat.lost
            if lost is not None:
                # The queue was purged since a successor may write by now: the loss is the reason, not the purge.
                raise errors.TaskMigrated(lost) from failure
            raise
        except errors.UnknownStream as failure:
            named = self._named(failure)
            self.abandon()
            if named is failure:
                raise
            raise named from failure
        except BaseException:
            self.abandon()
            raise

    def _named(self, failure: errors.UnknownStream) -> errors.UnknownStream:
        """The failure with what is committed, if the stream is an input or the runtime's own."""
        if isinstance(failure, errors.UnknownPartition):
            return failure
        stream = SystemStream(failure.system, failure.stream)
        positions = [item for task in self._committed_positions().values() for item in task.items()]
        if own := own_streams(self._builder.config).get(stream):
            places = ", ".join(sorted(f"{ssp}@{offset}" for ssp, offset in positions)) or "no positions"
            return errors.UnknownStream(*stream, own=f"{own} (committed are {places})")
        committed = {ssp.partition: offset for ssp, offset in positions if ssp.system_stream == stream}
        return errors.InputDeleted(*stream, committed) if committed else failure

    def _committed_positions(self) -> Mapping[str, Mapping[SystemStreamPartition, int]]:
        return self._loop.committer.committed if self._loop else {}

    def start(self) -> RunLoop:
        """Only start: nothing is processed before a turn of the loop. A caller that turns the loop itself calls
        `finish` at the end, or `abandon` when anything raises, this call included."""
        self._heartbeat.start()
        if native.missing:
            logger.info(
                "the compiled extension is not used (%s): reading, writing and caching take more CPU", native.missing
            )
        loop = self._start()
        self._heartbeat.phase("running")
        return loop

    def finish(self) -> ContainerReport:
        """Only stop, with the last commit; returns the last report, with all metrics."""
        self._heartbeat.phase("stopping")
        self._stop()
        return replace(self._heartbeat.finish("done"), metrics=self._builder.metrics.snapshot())

    def _settled(self, void: errors.PositionVoid) -> errors.PositionVoid:
        """Commit what is processed, since the records may be gone and nothing could process them again; returns the
        error with the positions. Nothing is committed in a failed start."""
        try:
            if self._loop is None:
                self.abandon()
                return void
            self._loop.wind_down()
            at = sorted((ssp, offset) for task in self._tasks for ssp, offset in task.committable().items())
            self._heartbeat.phase("stopping")
            self._stop()
        except Exception as cause:  # noqa: BLE001  # the position is what counts
            logger.warning("What was processed since the last commit is not committed: %s", cause)
            self.abandon()
            return void
        self._heartbeat.finish("failed")
        of = [f"{ssp} to {offset}" for ssp, offset in at if str(void.place) in {str(ssp), str(ssp.system_stream)}]
        more = f" and {len(of) - _MOST_PLACES} more" if len(of) > _MOST_PLACES else ""
        return void.after(
            f"processed and committed are {', '.join(of[:_MOST_PLACES])}{more} (exclusive), and nothing else"
        )

    def abandon(self) -> None:
        """Close everything without a commit; failures on the way are logged, since the first one counts."""
        loops = [self._loop.close] if self._loop else []
        self._close_all([*loops, *(task.close for task in self._tasks), *self._closers()])
        self._heartbeat.finish("failed")

    def vanish(self) -> None:
        """Like `abandon`, but without the `close` of the tasks, as after a SIGKILL."""
        self._close_all(self._closers())
        self._heartbeat.finish("failed")

    @property
    def tasks(self) -> Sequence[TaskInstance]:
        return tuple(self._tasks)

    def _start(self) -> RunLoop:
        builder, epoch = self._builder, self._lease.epoch
        # 1  the lease
        self._heartbeat.should_stop()
        reach("start.1")
        # 2  transactions
        builder.take_over(self._must_own)
        reach("start.2")
        # 3  checkpoints
        progress = builder.read_progress(self._ownership)
        reach("start.3")
        # 4, 5  stores
        self._heartbeat.phase("restoring")
        starts = builder.starts(progress, self._clock.wall_ms(), self._ends)
        should_stop = self._heartbeat.should_stop
        try:
            self._stores = builder.open_stores(starts, progress.adopted, self._on_restore, should_stop)
        except errors.ForeignRecords:
            # Records of a successor are not foreign: `_must_own` raises then, and this attempt ends.
            self._must_own()
            raise
        side = builder.fill_stores(self._stores, self._on_restore, should_stop)
        self._opened.append(side.close)
        for name, given in starts.items():
            start = replace(given, run_id=self._ownership.run_id or "")
            self._tasks.append(builder.tasks.task(name, self._stores[name], start, self._lease, should_stop))
        reach("start.5")
        # 6  init
        for task in self._tasks:
            builder.tasks.init(task, epoch)
            builder.metrics.watch(task.name, task.metrics)
            task.join()
        reach("start.6")
        # 7  inputs
        inputs = builder.inputs(self._ends, self._tasks)
        self._opened.append(inputs.close)
        committer = builder.committer(self._lease, self._ownership, should_stop, self._must_own, inputs)
        committer.commit([task for task in self._tasks if task.start.must_commit], force=True)
        self._start_inputs(inputs)
        reach("start.7")
        self._loop = builder.run_loop(self._tasks, inputs, side, committer, should_stop, self._heartbeat.should_drain)
        self._committed.publish(published_stores(self._stores.values()))
        return self._loop

    def _must_own(self) -> None:
        """Ask the coordinator, and look which run is the owner. Raises TaskMigrated."""
        self._heartbeat.confirm()
        self._ownership.poll_once()

    def _stop(self) -> None:
        loop = self._loop
        assert loop is not None
        loop.committer.finish(self._tasks)
        loop.side.keep()
        loop.side.close()
        loop.inputs.close()
        loop.close()
        for task in self._tasks:
            task.close()
            task.warn_of_late_changes()
            task.sinks.close()
        self._committed.withdraw()
        for task in self._tasks:
            task.stores.flush_engines()
            self._builder.metrics.watch(task.name, task.metrics().copy)  # its stores close
            task.stores.close()
        self._ownership.close()
        self._builder.close()

    def _closers(self) -> list[Callable[[], None]]:
        closers: list[Callable[[], None]] = [self._committed.withdraw]
        closers += [task.sinks.close for task in self._tasks]
        closers += [stores.close for stores in self._stores.values()]
        return [*closers, *self._opened, self._ownership.close, self._builder.close]

    @staticmethod
    def _close_all(closers: Iterable[Callable[[], None]]) -> None:
        for close in closers:
            try:
                close()
            except Exception as cause:  # noqa: BLE001  # the attempt has failed already
                logger.warning("Closing after a failure: %s", cause)

    def _start_inputs(self, inputs: Inputs) -> None:
        """Read from the tasks' offsets; for a broadcast partition from the least offset of its tasks."""
        first: dict[SystemStreamPartition, int] = {}
        epochs: dict[SystemStreamPartition, int] = {}
        ids: dict[SystemStream, str] = {}
        for task in self._tasks:
            ids.update(task.start.input_ids)
            for ssp, offset in task.offsets.items():
                if offset <= first.get(ssp, offset):
                    first[ssp] = offset
                    epochs.pop(ssp, None)
                    if ssp in task.start.leader_epochs:
                        epochs[ssp] = task.start.leader_epochs[ssp]
        inputs.start(first, ids, epochs)

    def _on_restore(self, name: str, done: int, total: int) -> None:
        self._restoring[name] = (done, total)

    @property
    def commits(self) -> int:
        return self._loop.committer.count if self._loop else 0

    def report(self, phase: str) -> ContainerReport:
        tasks, restoring = list(self._tasks), {} if self._tasks else dict(self._restoring)
        processed, commits = sum(task.processed for task in tasks), self.commits
        done = (processed, commits, tuple(restoring.values()))
        facts = NO_FACTS
        if self._watch is not None:
            facts = self._watch.facts(phase, done, self._builder.tasks.handled.take())
        return ContainerReport(
            container_id=self._builder.model.id,
            epoch=self._lease.epoch,
            phase=phase,
            processed=processed,
            ends={str(ssp): end for ssp, end in self._ends.items()},
            restoring=restoring,
            metrics=self._builder.metrics.numbers(),
            commits=commits,
            facts=facts,
            positions={str(ssp): offset for task in tasks for ssp, offset in task.offsets.items()},
            restored={
                f"{task.name}/{store}": (result.records, result.seconds, result.source)
                for task in tasks
                for store, result in task.stores.restored.items()
            },
            clocks={task.name: task.progress for task in tasks},
        )

    def _progress(self) -> Progress:
        if self._loop is not None:
            self._loop.request_positions()
        caught_up = self._loop.caught_up if self._loop else {}
        return progress_of(list(self._tasks), self._committed_positions(), caught_up)
