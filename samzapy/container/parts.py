"""What a container is made of, made from the job's configuration; when it is made is the lifecycle's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samzapy.api.checkpoint import Checkpoint, CheckpointManager
from samzapy.api.context import ContainerContext, Context, JobContext
from samzapy.api.engine import StorageEngineFactory
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import StreamTask
from samzapy.checkpoint.offsets import starting_offset
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.container.clients import SystemClients
from samzapy.container.collector import BufferingCollector
from samzapy.container.commit import Committer
from samzapy.container.context import ContainerTaskContext
from samzapy.container.decode import Decoder
from samzapy.container.inputs import Inputs
from samzapy.container.task_instance import TaskInstance
from samzapy.job.model import ContainerModel, TaskModel
from samzapy.storage.manager import OpeningStores, TaskStores, begin_task_stores, restore_together
from samzapy.storage.opening import TaskSettings

#: Starting offsets of one task.
Offsets = dict[SystemStreamPartition, int]


class Parts:
    """Makes the tasks, stores, inputs and the committer of one container, and closes the clients they share."""

    def __init__(
        self,
        config: JobConfig,
        model: ContainerModel,
        clients: SystemClients,
        checkpoints: CheckpointManager,
        engines: Mapping[str, StorageEngineFactory],
        serdes: Mapping[str, Serde],
        task_class: type[StreamTask],
        metrics: MetricsRegistry,
    ) -> None:
        self.config = config
        self.model = model
        self.metrics = metrics
        self._clients = clients
        self._checkpoints = checkpoints
        self._engines = engines
        self._serdes = serdes
        self._task_class = task_class

    def read_checkpoints(self) -> dict[str, Checkpoint | None]:
        """The last checkpoint of every task, None where there is none."""
        return {task.name: self._checkpoints.read(task.name) for task in self.model.tasks}

    def starting_offsets(self, checkpoints: Mapping[str, Checkpoint | None]) -> dict[str, Offsets]:
        """Where every task starts. Raises OffsetOutOfRange, UnknownStream."""
        logs = {}
        for system in sorted({ssp.system for ssp in self.model.ssps}):
            logs.update(self._clients.admin(system).offsets(s for s in self.model.ssps if s.system == system))
        return {
            task.name: {
                ssp: starting_offset(ssp, checkpoints[task.name], self.config.stream(ssp.system_stream), logs[ssp])
                for ssp in sorted(task.ssps)
            }
            for task in self.model.tasks
        }

    def open_stores(self, clock: Clock, on_restore: Callable[[str, int, int], None]) -> dict[str, TaskStores]:
        """The stores of every task, restored; `on_restore` hears of `task/store`, offsets read, offsets to read."""
        openings: list[OpeningStores] = []
        began = clock.monotonic()
        try:
            for task in self.model.tasks:
                settings = TaskSettings(task.name, task.changelog_partition, len(self.model.tasks))
                openings.append(
                    begin_task_stores(
                        self.config,
                        settings,
                        serdes=self._serdes,
                        engines=self._engines,
                        admin_of=self._clients.admin,
                        clock=clock,
                    )
                )
        except BaseException:
            for opening in openings:
                opening.abandon()
            raise
        stores = restore_together(openings, self._clients.consumer, clock, on_restore)
        self.metrics.gauge("restore", "seconds").set(clock.monotonic() - began)
        return {task.name: opened for task, opened in zip(self.model.tasks, stores, strict=True)}

    def task(self, model: TaskModel, stores: TaskStores, offsets: Offsets) -> TaskInstance:
        """A new instance of the user's class with everything around it."""
        collector = BufferingCollector(
            self._stream_serdes,
            self._clients.producer,
            drop=self.config.task.drop_serialization_errors,
            dropped=self.metrics.counter("messages", "dropped-serialization"),
        )
        return TaskInstance(model.name, self._task_class(), stores, collector, offsets)

    def init(self, task: TaskInstance, epoch: int) -> None:
        """Call the task's `init` with its context."""
        context = ContainerTaskContext(task.name, task.stores.stores, task.offsets, self.metrics, epoch)
        job = JobContext(self.config.name, self.config.id, self.config.resolved)
        task.init(Context(job, ContainerContext(self.model.id, self.metrics), context))
        context.seal()

    def committer(self, epoch: int, clock: Clock) -> Committer:
        """The container's committer."""
        changelogs = {store.changelog.system for store in self.config.stores.values() if store.changelog}
        return Committer(self._clients.producer, frozenset(changelogs), self._checkpoints, epoch, clock, self.metrics)

    def inputs(self, ends: Mapping[SystemStreamPartition, int], clock: Clock) -> Inputs:
        """Consumers and decoders of every input of the container; nothing is fetched yet."""
        streams = {ssp.system_stream for ssp in self.model.ssps}
        dropped = self.metrics.counter("messages", "dropped-deserialization")
        decoders = {
            stream: Decoder(
                *self._stream_serdes(stream), drop=self.config.task.drop_deserialization_errors, dropped=dropped
            )
            for stream in streams
        }
        return Inputs(
            {system: self._clients.consumer(system) for system in sorted({stream.system for stream in streams})},
            decoders,
            {ssp: end for ssp, end in ends.items() if ssp in self.model.ssps},
            clock,
            poll_batch_size=self.config.task.poll_batch_size,
            max_idle_s=self.config.task.max_idle_ms / 1000.0,
        )

    def close(self) -> None:
        """Close the clients."""
        try:
            self._checkpoints.close()
        finally:
            self._clients.close()

    def _stream_serdes(self, stream: SystemStream) -> tuple[Serde | None, Serde | None]:
        config = self.config.stream(stream)
        key = self._serdes[config.key_serde] if config.key_serde else None
        return key, self._serdes[config.msg_serde] if config.msg_serde else None
