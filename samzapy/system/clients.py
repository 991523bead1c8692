"""Makes the clients of a job's systems when they are first needed, and closes them together.

`job_clients` alone names the clients of a job: `<job key>-<purpose>`. Callers that also need the job's checkpoints open
both by `samzapy.container.supervision.job_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from samzapy.api.stream import SystemStream, SystemStreamPartition, grouped
from samzapy.api.system import (
    OffsetRange,
    StreamDescription,
    StreamSpec,
    SystemAdmin,
    SystemConsumer,
    SystemFactory,
    SystemProducer,
    SystemSettings,
    SystemTraits,
    create_all,
    describe_all,
)
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, UnknownStream
from samzapy.plugins import PluginError, load_class


def traits_of(settings: SystemSettings) -> SystemTraits:
    """The properties of a system. Raises as `load_factory`."""
    return load_factory(settings).traits(settings)


def record_limit(settings: SystemSettings) -> int | None:
    """The producer's `message.max.bytes`; None if it is not set."""
    said = settings.producer.get("message.max.bytes", "")
    return int(said) if said.isdigit() else None


def system_factory(settings: SystemSettings) -> SystemFactory:
    """An instance of the class that `settings.factory` names, which has checked the settings. Connects to nothing.

    Raises ConfigError as `load_factory` does, and for every problem that the factory's `check` finds in the settings.
    """
    factory = load_factory(settings)
    factory.check(settings)
    return factory


def load_factory(settings: SystemSettings) -> SystemFactory:
    """An instance of the class that `settings.factory` names.

    Raises ConfigError with the key `systems.NAME.samza.factory` if it is not a SystemFactory.
    """
    key = f"systems.{settings.name}.samza.factory"
    try:
        loaded = load_class(settings.factory)
    except PluginError as cause:
        raise ConfigError.of(key, settings.factory, str(cause)) from cause
    if not issubclass(loaded, SystemFactory):
        allowed = "must name a subclass of samzapy.api.system.SystemFactory"
        raise ConfigError.of(key, settings.factory, allowed)
    try:
        return loaded()
    except Exception as cause:
        reason = f"cannot be made without arguments ({type(cause).__name__}: {cause})"
        raise ConfigError.of(key, settings.factory, reason) from cause


@runtime_checkable
class MeasuredClient(Protocol):
    """What a consumer or producer may add: numbers of its own."""

    def metrics(self) -> Mapping[str, float]:
        """The numbers by name, also after `close`; counts only grow. From any thread, one at a time."""


@runtime_checkable
class HeaderlessConsumer(Protocol):
    """What a consumer may add: cheaper records for a reader that needs no headers."""

    def skip_headers(self) -> None:
        """Return records without headers. Before `start`."""


@runtime_checkable
class LeaderEpochs(Protocol):
    """What a consumer may add: the leader epochs of its positions."""

    def epochs(self) -> Mapping[SystemStreamPartition, int]:
        """The leader epochs in which the positions were read, where they are known."""


@runtime_checkable
class PurgeableProducer(Protocol):
    """What a producer with a queue may add."""

    def purge(self) -> None:
        """Drop queued records that are not yet sent, after the lease is lost and a successor may write. From any
        thread. The producer cannot be used afterwards."""


@runtime_checkable
class ConsumerGroups(Protocol):
    """What the admin of a system with consumer groups may add."""

    def mirror(self, group: str, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Copy committed positions to the consumer group of that name, for tools that show lag; nothing in samzapy
        reads them."""


@runtime_checkable
class PartitionEnds(Protocol):
    """What an admin may add: the ends of partitions for less than their ranges cost."""

    def ends(self, ssps: Iterable[SystemStreamPartition], *, committed: bool) -> dict[SystemStreamPartition, int]:
        """`upcoming` of each partition, as `SystemAdmin.offsets` gives it."""


class SystemLimits(NamedTuple):
    """The longest transaction time-out that a system grants, the largest record in bytes of a stream that its first
    record creates, and the largest number of copies of a stream, which is the number of brokers. None: no limit, or
    unknown."""

    transaction_ms: int | None = None
    record_bytes: int | None = None
    replicas: int | None = None


@runtime_checkable
class LimitedSystem(Protocol):
    """What an admin may add: the limits of its system."""

    def limits(self) -> SystemLimits:
        """The limits now."""


def limits_of(admin: SystemAdmin) -> SystemLimits:
    """The limits of the admin's system now."""
    return admin.limits() if isinstance(admin, LimitedSystem) else SystemLimits()


_Place = TypeVar("_Place", SystemStream, SystemStreamPartition)

#: The default time after which the system aborts an open transaction.
TRANSACTION_TIMEOUT_MS = 60_000


class SystemClients:
    """One admin and one producer per system, any number of consumers, made when they are first used, also after a
    `close`. Never made before a fork, never kept across runs."""

    def __init__(
        self,
        settings: Mapping[str, SystemSettings],
        factory_of: Callable[[SystemSettings], SystemFactory],
        client_id: str,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> None:
        """`client_id` names the clients in the logs and metrics of the systems."""
        self._transaction_timeout_ms = transaction_timeout_ms
        self._transactional: list[SystemProducer] = []
        self._settings = settings
        self._factory_of = factory_of
        self._client_id = client_id
        self._factories: dict[str, SystemFactory] = {}
        self._admins: dict[str, SystemAdmin] = {}
        self._producers: dict[str, SystemProducer] = {}
        self._consumers: list[SystemConsumer] = []
        self._measured: dict[str, MeasuredClient] = {}
        self._stream_ids: dict[SystemStream, str] = {}

    def admin(self, system: str) -> SystemAdmin:
        """The admin of a system."""
        if system not in self._admins:
            self._admins[system] = self._factory(system).admin(self._settings[system], f"{self._client_id}-admin")
        return self._admins[system]

    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        """The offsets that the partitions hold now, as `SystemAdmin.offsets` gives them; one request per system."""
        result: dict[SystemStreamPartition, OffsetRange] = {}
        for system, of_system in _by_system(ssps).items():
            result.update(self.admin(system).offsets(of_system, committed=committed))
        return result

    def describe(self, streams: Iterable[SystemStream]) -> dict[SystemStream, StreamDescription | None]:
        """The current descriptions of the streams, None for missing streams; one request per system."""
        result: dict[SystemStream, StreamDescription | None] = {}
        for system, of_system in _by_system(streams).items():
            described = describe_all(self.admin(system), [stream.stream for stream in of_system])
            result.update((SystemStream(system, name), item) for name, item in described.items())
        return result

    def names(self, systems: Iterable[str]) -> dict[str, list[str]]:
        """The names of all streams, by system; one request each."""
        return {system: self.admin(system).list_streams() for system in sorted(systems)}

    def create(self, specs: Mapping[SystemStream, StreamSpec]) -> None:
        """Create the streams that do not exist; one request per system."""
        for system, of_system in _by_system(specs).items():
            create_all(self.admin(system), [specs[stream] for stream in of_system])

    def ends(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, int]:
        """The offsets after the last records, as `offsets` gives them; one request per system."""
        result: dict[SystemStreamPartition, int] = {}
        for system, of_system in _by_system(ssps).items():
            admin = self.admin(system)
            if isinstance(admin, PartitionEnds):
                result.update(admin.ends(of_system, committed=committed))
            else:
                result.update({ssp: log.upcoming for ssp, log in admin.offsets(of_system, committed=committed).items()})
        return result

    def mirror(self, group: str, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Copy committed positions to the consumer groups of the systems that have any."""
        for system, of_system in _by_system(positions).items():
            admin = self.admin(system)
            if isinstance(admin, ConsumerGroups):
                admin.mirror(group, {ssp: positions[ssp] for ssp in of_system})

    def traits(self, system: str) -> SystemTraits:
        """The properties of a system."""
        return self._factory(system).traits(self._settings[system])

    def stream_id(self, stream: SystemStream) -> str:
        """The id that distinguishes a stream from earlier and later ones of its name; asked once. Raises
        UnknownStream."""
        result = self._stream_ids.get(stream)
        if result is None:
            described = self.admin(stream.system).describe(stream.stream)
            if described is None:
                raise UnknownStream(stream.system, stream.stream)
            result = self._stream_ids[stream] = described.stream_id
        return result

    def producer(self, system: str) -> SystemProducer:
        """The producer of a system."""
        if system not in self._producers:
            built = self._factory(system).producer(self._settings[system], f"{self._client_id}-producer")
            self._producers[system] = built
            self._measure(f"{system}/producer", built)
        return self._producers[system]

    def transactional(self, system: str, transactional_id: str) -> SystemProducer:
        """A new producer with that id; it has not taken over from its predecessor yet."""
        built = self._with_id(system, transactional_id, "transactions")
        self._transactional.append(built)
        self._measure(f"{system}/transactions-{len(self._transactional) - 1}", built)
        return built

    def fencing(self, system: str, transactional_id: str) -> AbstractContextManager[SystemProducer]:
        """Like `transactional`, closed at the end of the context."""
        return closing(self._with_id(system, transactional_id, "fence"))

    def _with_id(self, system: str, transactional_id: str, purpose: str) -> SystemProducer:
        settings, client_id = self._settings[system], f"{self._client_id}-{purpose}"
        return self._factory(system).producer(settings, client_id, transactional_id, self._transaction_timeout_ms)

    def purge(self) -> None:
        """Make the producers discard their unsent records; from any thread."""
        for producer in [*self._producers.values(), *self._transactional]:
            if isinstance(producer, PurgeableProducer):
                producer.purge()

    def consumer(self, system: str) -> SystemConsumer:
        """A new consumer of a system."""
        built = self._factory(system).consumer(self._settings[system], f"{self._client_id}-consumer")
        self._consumers.append(built)
        self._measure(f"{system}/consumer-{len(self._consumers) - 1}", built)
        return built

    def changelog_consumer(self, system: str) -> SystemConsumer:
        """A new consumer of a system, for a reader that needs no headers."""
        built = self.consumer(system)
        if isinstance(built, HeaderlessConsumer):
            built.skip_headers()
        return built

    def metrics(self) -> dict[str, float]:
        """The numbers of all clients, closed ones included, as `SYSTEM/CLIENT/NAME`; from any thread, one at a time."""
        return {
            f"{place}/{name}": value
            for place, client in list(self._measured.items())
            for name, value in client.metrics().items()
        }

    def close(self) -> None:
        """Close every client that was made, also when the close of another one raises."""
        clients: list[SystemConsumer | SystemProducer | SystemAdmin] = [
            *self._consumers,
            *self._producers.values(),
            *self._transactional,
            *self._admins.values(),
        ]
        self._consumers, self._transactional, self._producers, self._admins = [], [], {}, {}
        failures = []
        for client in clients:
            try:
                client.close()
            except Exception as cause:  # noqa: BLE001  # close the others first
                failures.append(cause)
        if failures:
            raise failures[0]

    def _measure(self, place: str, client: SystemConsumer | SystemProducer) -> None:
        if isinstance(client, MeasuredClient):
            self._measured[place] = client

    def _factory(self, system: str) -> SystemFactory:
        if system not in self._factories:
            self._factories[system] = self._factory_of(self._settings[system])
        return self._factories[system]


class KnownStreams:
    """Descriptions of streams as of the first request, for the length of a start or a check; missing streams are asked
    for again."""

    def __init__(self, clients: SystemClients) -> None:
        self._clients = clients
        self._known: dict[SystemStream, StreamDescription] = {}

    def fetch(self, streams: Iterable[SystemStream]) -> None:
        """Ask for the unknown ones in one request."""
        unknown = {stream for stream in streams if stream not in self._known}
        result = self._clients.describe(unknown)
        self._known.update((stream, item) for stream, item in result.items() if item is not None)

    def __call__(self, stream: SystemStream) -> StreamDescription | None:
        """The description of a stream, None if it does not exist."""
        if stream not in self._known:
            self.fetch([stream])
        return self._known.get(stream)


def _by_system(places: Iterable[_Place]) -> dict[str, list[_Place]]:
    """Streams or partitions, each once, in order."""
    return grouped((place.system, place) for place in sorted(set(places)))


def job_clients(
    config: JobConfig,
    purpose: str,
    transaction_timeout_ms: int | None = None,
    factory_of: Callable[[SystemSettings], SystemFactory] = system_factory,
) -> SystemClients:
    """The clients of a job's systems for one `purpose`; connects to nothing yet. The caller closes them.

    `transaction_timeout_ms`: by default the job's, which a broker may have limited.
    """
    timeout_ms = transaction_timeout_ms or config.task.transaction_timeout_ms
    return SystemClients(config.systems, factory_of, f"{config.job_name}-{purpose}", timeout_ms)
