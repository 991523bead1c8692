"""Makes the inputs of a container: a consumer for each system, or all of them behind the choosers of the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from samzapy.api.batch import BatchTask
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemConsumer
from samzapy.api.task import AnyTask, AsyncStreamTask, CoroutineTask
from samzapy.clock import Clock
from samzapy.config.guarantee import Guarantee
from samzapy.config.job import JobConfig
from samzapy.config.tasks.error_policy import Stage
from samzapy.container.errors.dead_letters import NoRawRecords
from samzapy.container.event_time.control_messages import ControlDecoder
from samzapy.container.inputs.decode import BatchDecoder, Decoder, TolerantBatchDecoder, TolerantDecoder
from samzapy.container.inputs.inputs import Inputs, PollLimits
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.system.choosers.consumer import Bootstrap, ChoosingConsumer, Portion
from samzapy.system.choosers.stack import chooser_of, is_wanted
from samzapy.system.clients import SystemClients

#: The messages that asynchronous tasks get at a time, as a multiple of their messages in flight. Few, since they are
#: processed before anything more urgent that comes later.
_PORTIONS_IN_FLIGHT = 2


#: The default number of records of a poll. A batch task combines its records: in a larger batch keys repeat more often,
#: so fewer entries per record go to a store.
_POLL, _POLL_OF_BATCHES = 2_000, 16_000
#: The records that are decoded at a time: few, since their objects stay in the processor's cache while they are
#: processed (2,000 cost a sixth more CPU on cores with half a MiB of it).
_DECODED = 256

#: The decoders of a stream, without and with an error policy.
_Decoders = tuple[type[Decoder], type[Decoder]]
_ENVELOPES: _Decoders = Decoder, TolerantDecoder
_BATCHES: _Decoders = BatchDecoder, TolerantBatchDecoder


class InputBuilder:
    """Makes the inputs of one container."""

    def __init__(
        self,
        config: JobConfig,
        ssps: frozenset[SystemStreamPartition],
        clients: SystemClients,
        serdes_of: Callable[[SystemStream], tuple[Serde | None, Serde | None]],
        clock: Clock,
        metrics: MetricsRegistry,
    ) -> None:
        """`metrics` get the distance of bootstrap streams from their heads."""
        self._config = config
        self._ssps = ssps
        self._clients = clients
        self._serdes_of = serdes_of
        self._clock = clock
        self._metrics = metrics

    def inputs(
        self,
        ends: Mapping[SystemStreamPartition, int],
        tasks: Sequence[TaskInstance],
        raw: NoRawRecords,
        kind: type[AnyTask],
    ) -> Inputs:
        """Make consumers and decoders of every partition, without fetching anything. `tasks` are the readers, of the
        class `kind`."""
        task = self._config.task
        streams = {ssp.system_stream for ssp in self._ssps}
        over = {ssp for each in tasks for ssp in each.event_clock.over}
        own_ends = {ssp: end for ssp, end in ends.items() if ssp in self._ssps}
        # These had ended before the restart: they are over unless new messages have come.
        own_ends = {**heads_of(over - own_ends.keys(), self._clients), **own_ends}
        finished: set[SystemStreamPartition] = set()
        return Inputs(
            self._consumers(self._bootstrap(own_ends, tasks, finished), tasks, kind),
            {stream: self._decoder(stream, kind) for stream in streams},
            own_ends,
            self._clock,
            PollLimits(self._poll_size(kind), task.max_idle_ms / 1000.0, self._decoded_at_once(kind)),
            raw=raw,
            finished=finished,
        )

    def _decoder(self, stream: SystemStream, kind: type[AnyTask]) -> Decoder:
        strict = self._config.task.errors.policies[Stage.DESERIALIZE].only_fails
        strict_class, tolerant_class = _BATCHES if issubclass(kind, BatchTask) else _ENVELOPES
        decoder = (strict_class if strict else tolerant_class)(*self._serdes_of(stream))
        return ControlDecoder(decoder) if self._config.stream(stream).intermediate else decoder

    def _poll_size(self, kind: type[AnyTask]) -> int:
        return self._config.task.poll_batch_size or (_POLL_OF_BATCHES if issubclass(kind, BatchTask) else _POLL)

    def _decoded_at_once(self, kind: type[AnyTask]) -> int | None:
        """The records that are decoded at a time, None for a whole poll: as a batch, or since at-most-once commits a
        poll before its messages are processed, and must not pass over one that cannot be decoded."""
        whole = issubclass(kind, BatchTask) or self._config.task.guarantee is Guarantee.AT_MOST_ONCE
        return None if whole else _DECODED

    def _consumers(
        self, bootstrap: Bootstrap | None, tasks: Sequence[TaskInstance], kind: type[AnyTask]
    ) -> Mapping[str, SystemConsumer]:
        consumers = {system: self._clients.consumer(system) for system in sorted({ssp.system for ssp in self._ssps})}
        if not is_wanted(self._config, self._ssps):
            return consumers
        task = self._config.task
        size = most = self._poll_size(kind)
        if issubclass(kind, (AsyncStreamTask, CoroutineTask)):
            most = min(most, _PORTIONS_IN_FLIGHT * task.asynchronous.max_concurrency * len(tasks))
        choosing = ChoosingConsumer(
            consumers,
            chooser_of(self._config, self._ssps),
            Portion(self._clock, most),
            most_waiting=2 * size,
            max_idle_s=task.max_idle_ms / 1000.0,
            bootstrap=bootstrap,
        )
        return dict.fromkeys(consumers, choosing)

    def _bootstrap(
        self,
        ends: Mapping[SystemStreamPartition, int],
        tasks: Sequence[TaskInstance],
        finished: set[SystemStreamPartition],
    ) -> Bootstrap | None:
        """The gate before all other streams. If a partition ends before its head, its end counts as its head.
        `finished`: the live set of the partitions that have ended."""
        ssps = {ssp for ssp in self._ssps if self._config.stream(ssp.system_stream).bootstrap}
        if not ssps:
            return None
        heads = {ssp: min(head, ends.get(ssp, head)) for ssp, head in heads_of(ssps, self._clients).items()}

        def processed(ssp: SystemStreamPartition) -> int:
            return min(task.offsets[ssp] for task in tasks if ssp in task.offsets)

        left = self._metrics.gauge("inputs", "bootstrap-remaining").set
        return Bootstrap(heads, processed, left, finished, self._clock)


def logs_of(ssps: Iterable[SystemStreamPartition], clients: SystemClients) -> dict[SystemStreamPartition, OffsetRange]:
    """The offset range of every partition, now."""
    by_system: dict[str, list[SystemStreamPartition]] = {}
    for ssp in sorted(ssps):
        by_system.setdefault(ssp.system, []).append(ssp)
    logs: dict[SystemStreamPartition, OffsetRange] = {}
    for system, of_system in by_system.items():
        logs.update(clients.admin(system).offsets(of_system))
    return logs


def heads_of(ssps: Iterable[SystemStreamPartition], clients: SystemClients) -> dict[SystemStreamPartition, int]:
    """The end of every partition, now."""
    return {ssp: log.upcoming for ssp, log in logs_of(ssps, clients).items()}
