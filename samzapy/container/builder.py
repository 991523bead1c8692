"""Makes the parts of a container from the configuration of its job. `lifecycle` has the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from samzapy.api.checkpoint import Checkpoint, CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.checkpoint.managers import one_pass
from samzapy.checkpoint.records import Adopted, Startpoint, startpoints_from_json
from samzapy.clock import Clock
from samzapy.config.error_policy import Action, Stage
from samzapy.config.guarantee_warnings import GUARANTEE
from samzapy.config.job import JobConfig
from samzapy.config.task import Guarantee
from samzapy.container.commit_protocol import AtMostOnce, CommitProtocol, StateWriter
from samzapy.container.event_time.control_messages import ControlDecoder
from samzapy.container.inputs.decode import Decoder
from samzapy.container.inputs.inputs import Inputs, container_inputs
from samzapy.container.inputs.starting_offsets import StartingPositions, committed_changelogs, own_changelog_ends
from samzapy.container.outputs.producers import TaskProducers, transactional_id
from samzapy.container.run_loop import LoopControl, RunLoop
from samzapy.container.side_inputs import SideInputs, fill_stores
from samzapy.container.supervision.job_records import Ownership
from samzapy.container.supervision.worker_process import sweep_in_background
from samzapy.container.tasks.task_builder import Plugins, TaskBuilder
from samzapy.container.tasks.task_instance import TaskInstance, TaskStart
from samzapy.job.lease import ContainerLease
from samzapy.job.planner import ContainerModel, TaskModel
from samzapy.metrics import Registry
from samzapy.serializers import StreamSerdes
from samzapy.storage.opening import StoreOpener, StoreOwner
from samzapy.storage.store import TaskStores
from samzapy.system.clients import SystemClients

#: The bounds of the buckets for the time that the restore of a store took, in seconds.
_RESTORE_SECONDS = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0)


class JobProgress(NamedTuple):
    """The last checkpoint of each task, None where there is none; the startpoints of the job, and its adopted changelog
    records."""

    checkpoints: Mapping[str, Checkpoint | None]
    startpoints: tuple[Startpoint, ...]
    adopted: Adopted


class ContainerBuilder:
    """Makes the tasks, stores, inputs and the committer of one container, and closes the clients they share."""

    def __init__(
        self,
        config: JobConfig,
        model: ContainerModel,
        clients: SystemClients,
        checkpoints: CheckpointManager,
        plugins: Plugins,
        *,
        metrics: Registry,
        transactions: str | None,
        clock: Clock,
    ) -> None:
        """`transactions`: the system with the transactions for the state, None for none."""
        self.config = config
        self.model = model
        self.metrics = metrics
        self._clients = clients
        self._checkpoints = checkpoints
        self._engines = plugins.engines
        self._serdes = plugins.serdes
        self._clock = clock
        self._producers = TaskProducers(
            clients,
            metrics,
            transactions,
            transactional_id(config.job_name, model.id),
            outputs_inside=config.task.guarantee.outputs_in_transaction,
            # What is repartitioned becomes state, which holds each input once.
            inside=config.repartitions if config.task.guarantee.outputs_have_ids else (),
        )
        self._stream_serdes = StreamSerdes(config, plugins.serdes, plugins.task_class)
        self.tasks = TaskBuilder(
            config,
            model,
            plugins,
            clients,
            self._producers,
            metrics=metrics,
            serdes_of=self._stream_serdes,
            clock=clock,
        )

    def take_over(self, must_own: Callable[[], object]) -> None:
        """Fence the container's predecessor, where transactions carry the state. `must_own` raises when the
        container is no longer this attempt's."""
        self._producers.take_over(must_own)

    def purge(self) -> None:
        """Throw away unsent records, from any thread: another attempt owns the container."""
        self._clients.purge()

    def read_progress(self, ownership: Ownership) -> JobProgress:
        """The job's records about its tasks, read in one pass. Raises JobTakenOver."""
        with one_pass(self._checkpoints):
            ownership.check(self._checkpoints)
            checkpoints = self._checkpoints.read(task.name for task in self.model.tasks)
            startpoints = (
                self._checkpoints.read_record(JobRecord.STARTPOINTS).newest if self.config.startpoints else None
            )
            adopted = self._checkpoints.read_record(JobRecord.ADOPTED).newest
        # A reader that nobody polls would go on to fetch what every commit writes.
        self._checkpoints.close()
        return JobProgress(checkpoints, startpoints_from_json(startpoints), Adopted.from_json(adopted))

    def starts(
        self, progress: JobProgress, now_ms: int, ends: Mapping[SystemStreamPartition, int]
    ) -> dict[str, TaskStart]:
        positions = StartingPositions(self.config, self.model, self._clients, self.metrics, now_ms)
        return positions.starts(progress.checkpoints, progress.startpoints, ends)

    def open_stores(
        self,
        starts: Mapping[str, TaskStart],
        adopted: Adopted,
        on_restore: Callable[[str, int, int], None],
        should_stop: Callable[[], bool],
    ) -> dict[str, TaskStores]:
        """The stores of every task, restored; `on_restore` gets `task/store`, offsets read, offsets to read. `adopted`:
        the changelog records of others that the job has taken for its own."""
        clock = self._clock
        began = clock.monotonic()
        opener = StoreOpener(
            self.config,
            self._engines,
            self._serdes,
            admin_of=self._clients.admin,
            clock=clock,
            tasks=len(self.model.tasks),
            record_limit_of=lambda system: self._clients.traits(system).max_record_bytes,
        )
        owners = [self._store_owner(task, starts[task.name], adopted) for task in self.model.tasks]
        stores = opener.restore(opener.open(owners), self._clients.changelog_consumer, on_restore, should_stop)
        sweep_in_background(self.config, [task.name for task in self.model.tasks], clock)
        self.metrics.gauge("restore", "seconds").set(clock.monotonic() - began)
        results = [result for opened in stores for result in opened.restored.values()]
        for result in results:
            self.metrics.histogram("restores", result.store, _RESTORE_SECONDS).update(result.seconds)
        rebuilt = sum(bool(result.reason) for result in results)
        self.metrics.counter(GUARANTEE, "stores-rebuilt").inc(rebuilt)
        return {task.name: opened for task, opened in zip(self.model.tasks, stores, strict=True)}

    def _store_owner(self, task: TaskModel, start: TaskStart, adopted: Adopted) -> StoreOwner:
        return StoreOwner(
            task.name,
            task.changelog_partition,
            committed_changelogs(self.config, start.checkpoint),
            {} if start.checkpoint is None else start.checkpoint.changelog_ids,
            ssps=task.ssps - self.config.task.broadcast_inputs,
            starts=start.offsets,
            own_ends=own_changelog_ends(self.config, start.checkpoint),
            adopted_end=adopted.end,
        )

    def fill_stores(
        self,
        stores: Mapping[str, TaskStores],
        on_restore: Callable[[str, int, int], None],
        should_stop: Callable[[], bool],
    ) -> SideInputs:
        """Fill the stores that have streams instead of a changelog; returns the side inputs to follow."""
        policy = self.config.task.errors.policies[Stage.DESERIALIZE]
        passes_over = policy.then is not Action.FAIL or bool(policy.ignored)

        def decoder_of(stream: SystemStream, replayed: bool) -> Decoder:
            # The task has passed over what did not decode, and so does a replay of its input.
            decoder = Decoder(*self._stream_serdes(stream), tolerant=replayed and passes_over)
            return ControlDecoder(decoder) if self.config.stream(stream).intermediate else decoder

        return fill_stores(
            self.config, stores, decoder_of, self._clients.consumer, self._clock, on_restore, should_stop
        )

    def run_loop(
        self,
        tasks: Sequence[TaskInstance],
        inputs: Inputs,
        side: SideInputs,
        committer: CommitProtocol,
        should_stop: Callable[[], bool],
        should_drain: Callable[[], bool],
    ) -> RunLoop:
        task = self.config.task
        return RunLoop(
            tasks,
            inputs,
            self.tasks.executor(should_stop),
            side=side,
            committer=committer,
            control=LoopControl(should_stop, should_drain, self._heads, task.window_ms, task.commit_ms),
            clock=self._clock,
        )

    def committer(
        self,
        lease: ContainerLease,
        ownership: Ownership,
        must_own: Callable[[], object],
        confirm: Callable[[], object],
        inputs: Inputs,
    ) -> CommitProtocol:
        """The commit protocol of the container. `must_own` raises when another attempt is known to own it; `confirm`
        asks first."""
        guarantee = self.config.task.guarantee
        changelogs = {store.changelog.system for store in self.config.stores.values() if store.changelog}
        state = StateWriter(self._checkpoints, self._producers, self._clients.ends, changelogs, confirm, guarantee)
        kind: Callable[..., CommitProtocol] = CommitProtocol
        if guarantee is Guarantee.AT_MOST_ONCE:
            kind = partial(AtMostOnce, check_owner=ownership.poll, lease_s=lease.duration_s)
        return kind(
            state,
            epoch=lease.epoch,
            clock=self._clock,
            metrics=self.metrics,
            must_own=must_own,
            outputs_inside=self._producers.system if guarantee.outputs_in_transaction else None,
            epochs=inputs.epochs,
        )

    def inputs(self, ends: Mapping[SystemStreamPartition, int], tasks: Sequence[TaskInstance]) -> Inputs:
        return container_inputs(
            self.config,
            self._clients,
            tasks,
            serdes_of=self._stream_serdes,
            clock=self._clock,
            metrics=self.metrics,
            ends=ends,
            raw=self.tasks.raw,
        )

    def _heads(self) -> dict[SystemStreamPartition, int]:
        # A drain ends what others write; the job's own tasks end the streams between its steps.
        own = self.config.repartitions
        return self._clients.ends({ssp for ssp in self.model.ssps if ssp.system_stream not in own})

    def close(self) -> None:
        with ExitStack() as closing:
            closing.callback(self._clients.close)
            closing.callback(self._checkpoints.close)
            closing.callback(self.tasks.close)
