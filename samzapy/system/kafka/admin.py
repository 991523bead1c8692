"""Looks at and changes a Kafka cluster's topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    EnvironmentFailure,
    OffsetOutOfRange,
    RetriableError,
    UnknownStream,
)
from samzapy.system.kafka.client import ClientErrors, make_client, partition_counts, reach
from samzapy.system.kafka.errors import UNKNOWN_TOPIC, error_of, general_error, one_line

_REQUEST_S = 15.0
#: How long one question for offsets waits. librdkafka sends it to the leader that it knew, and connects to a dead one
#: without any pause until the question times out; after that the leaders are looked up again.
_OFFSETS_S = 2.0
#: How long a topic's creation or deletion may take to show in the metadata.
_SETTLE_S = 30.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
_IMPOSSIBLE = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_REPLICA_ASSIGNMENT,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError._INVALID_ARG,  # noqa: SLF001
    }
)
_BETWEEN_LEADERS = frozenset(
    {
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)


class KafkaAdmin(SystemAdmin):
    """Every call waits at most 30 s and raises EnvironmentFailure or RetriableError after that."""

    def __init__(self, properties: Mapping[str, str], client_errors: ClientErrors, clock: Clock = SYSTEM_CLOCK) -> None:
        self._properties = properties
        self._client_errors = client_errors
        self._clock = clock
        self._made: Any = None
        self._closed = False
        #: Topics that the controller has made, or said to have.
        self._known: set[str] = set()
        #: Partitions of the topics, as the cluster knew them last.
        self._counts: dict[str, int] = {}

    def create(self, spec: StreamSpec) -> bool:
        if spec.partitions < 1:
            raise ConfigError(
                [ConfigProblem(f"{spec.stream}: partitions", str(spec.partitions), "expected an integer >= 1")]
            )
        factor = -1 if spec.replication_factor is None else spec.replication_factor
        topic = NewTopic(spec.stream, spec.partitions, factor, config=dict(spec.config))
        client = self._client
        try:
            client.create_topics([topic], request_timeout=_REQUEST_S)[spec.stream].result(_SETTLE_S)
        except KafkaException as cause:
            error = error_of(cause)
            if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                self._known.add(spec.stream)
                return False
            if error.code() in _IMPOSSIBLE:
                raise ConfigError([ConfigProblem(spec.stream, None, one_line(error))]) from cause
            raise general_error(error, self._client_errors.system, spec.stream) from cause
        self._known.add(spec.stream)
        self._wait(f"topic '{spec.stream}' has no leaders", lambda: _has_leaders(self._topic(spec.stream), spec))
        # The metadata know a leader a little before it knows itself.
        made = [
            SystemStreamPartition(self._client_errors.system, spec.stream, number) for number in range(spec.partitions)
        ]
        self._list_offsets(made, OffsetSpec.latest())
        return True

    def grow(self, stream: str, partitions: int) -> None:
        system = self._client_errors.system
        found = self.describe(stream)
        if found is None:
            raise UnknownStream(system, stream)
        if partitions < found.partitions:
            allowed = f"cannot shrink: it has {found.partitions}"
            raise ConfigError([ConfigProblem(f"{stream}: partitions", str(partitions), allowed)])
        if partitions > found.partitions:
            request = [NewPartitions(stream, partitions)]
            self._result(self._client.create_partitions(request, request_timeout=_REQUEST_S)[stream], stream)
        spec = StreamSpec(stream, partitions)
        self._wait(f"topic '{stream}' has no leaders", lambda: _has_leaders(self._topic(stream), spec))
        added = [SystemStreamPartition(system, stream, n) for n in range(found.partitions, partitions)]
        self._list_offsets(added, OffsetSpec.latest())

    def describe(self, stream: str) -> StreamDescription | None:
        found = self._describe(stream)
        deadline = self._clock.monotonic() + _SETTLE_S
        # Brokers learn of a topic one after another, and any of them may be the one that is asked.
        while found is None and stream in self._known and self._clock.monotonic() < deadline:
            self._client.poll(_PAUSE_S)
            found = self._describe(stream)
        return found

    def _describe(self, stream: str) -> StreamDescription | None:
        client = self._client
        answer = client.describe_topics(TopicCollection([stream]), request_timeout=_REQUEST_S)[stream]
        try:
            found = answer.result(_SETTLE_S)
        except KafkaException as cause:
            error = error_of(cause)
            if error.code() in UNKNOWN_TOPIC or error.code() == KafkaError.TOPIC_EXCEPTION:
                return None
            raise general_error(error, self._client_errors.system, stream) from cause
        resource = ConfigResource(ResourceType.TOPIC, stream)
        try:
            configs = self._result(client.describe_configs([resource], request_timeout=_REQUEST_S)[resource], stream)
        except UnknownStream:
            return None  # deleted a moment ago
        config = {name: entry.value for name, entry in configs.items() if entry.value is not None}
        replicas = min((len(partition.replicas) for partition in found.partitions), default=None)
        return StreamDescription(stream, len(found.partitions), str(found.topic_id), config, replicas)

    def list_streams(self) -> list[str]:
        return sorted(name for name in reach(self._client, self._client_errors).topics if not name.startswith("__"))

    def offsets(self, ssps: Iterable[SystemStreamPartition]) -> dict[SystemStreamPartition, OffsetRange]:
        chosen = list(ssps)
        oldest, upcoming = self._list_offsets(chosen, OffsetSpec.earliest(), OffsetSpec.latest())
        return {ssp: OffsetRange(oldest[ssp], upcoming[ssp]) for ssp in chosen}

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        chosen = list(ssps)
        (found,) = self._list_offsets(chosen, OffsetSpec.for_timestamp(int(time_ms)))
        none = [ssp for ssp, offset in found.items() if offset < 0]
        (upcoming,) = self._list_offsets(none, OffsetSpec.latest())
        return {**found, **upcoming}

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        oldest, upcoming = self.offsets([ssp])[ssp]
        if before > upcoming:
            raise OffsetOutOfRange(ssp, before, oldest, upcoming)
        if before > oldest:
            at = TopicPartition(ssp.stream, ssp.partition, before)
            answer = self._client.delete_records([at], request_timeout=_REQUEST_S)
            self._result(next(iter(answer.values())), str(ssp))

    def delete(self, stream: str) -> None:
        self._known.discard(stream)
        self._counts.pop(stream, None)
        self._result(self._client.delete_topics([stream], request_timeout=_REQUEST_S)[stream], stream)
        self._wait(f"topic '{stream}' is still there", lambda: self.describe(stream) is None)

    def longest_transaction_ms(self) -> int | None:
        """A broker's `transaction.max.timeout.ms`; None without the right to see it."""
        client = self._client
        resource = ConfigResource(ResourceType.BROKER, str(min(reach(client, self._client_errors).brokers)))
        answer = client.describe_configs([resource], request_timeout=_REQUEST_S)[resource]
        try:
            entry = answer.result(_SETTLE_S).get("transaction.max.timeout.ms")
        except (KafkaException, TimeoutError):
            return None
        return None if entry is None or entry.value is None else int(entry.value)

    def most_replicas(self) -> int | None:
        return len(reach(self._client, self._client_errors).brokers)

    def close(self) -> None:
        self._closed = True
        self._made = None

    @property
    def _client(self) -> Any:
        if self._closed:
            raise EnvironmentFailure(f"the admin of system '{self._client_errors.system}' is closed")
        if self._made is None:
            client = make_client(AdminClient, self._properties, self._client_errors)
            reach(client, self._client_errors)
            self._made = client
        return self._made

    def _topic(self, stream: str) -> Any:
        return reach(self._client, self._client_errors).topics.get(stream)

    def _list_offsets(self, ssps: list[SystemStreamPartition], *specs: Any) -> list[dict[SystemStreamPartition, int]]:
        """The offsets, by each of `specs`; asks again while a leader is away or does not answer, 30 s at most.

        The metadata of all topics, which a large cluster takes long to send, are asked for only when a partition is not
        known yet, or an answer casts doubt on what is.
        """
        deadline, pause_s = self._clock.monotonic() + _SETTLE_S, _PAUSE_S
        while ssps:
            known = all(ssp.partition < self._counts.get(ssp.stream, 0) for ssp in ssps)
            if not known:
                self._counts = partition_counts(self._client, self._client_errors, ssps, self._clock)
            try:
                return self._list_offsets_once(ssps, specs)
            except KafkaException as cause:
                self._counts = {}
                error = error_of(cause)
                lost = error.code() not in _BETWEEN_LEADERS or self._clock.monotonic() > deadline
                if lost and not known:
                    raise general_error(error, self._client_errors.system, self._client_errors.servers) from cause
                self._client.poll(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return [{} for _ in specs]

    def _list_offsets_once(
        self, ssps: list[SystemStreamPartition], specs: Sequence[Any]
    ) -> list[dict[SystemStreamPartition, int]]:
        level = IsolationLevel.READ_UNCOMMITTED
        asked = [
            self._client.list_offsets(
                {TopicPartition(ssp.stream, ssp.partition): spec for ssp in ssps},
                isolation_level=level,
                request_timeout=_OFFSETS_S,
            )
            for spec in specs
        ]
        found = []
        for answers in asked:
            by_partition = {(at.topic, at.partition): answer for at, answer in answers.items()}
            found.append({ssp: int(by_partition[ssp[1:]].result(_SETTLE_S).offset) for ssp in ssps})
        return found

    def _result(self, answer: Any, where: str) -> Any:
        try:
            return answer.result(_SETTLE_S)
        except KafkaException as cause:
            raise general_error(error_of(cause), self._client_errors.system, where) from cause
        except TimeoutError as cause:
            raise RetriableError(
                f"{where}: no answer from {self._client_errors.servers} within {_SETTLE_S:.0f} s"
            ) from cause

    def _wait(self, otherwise: str, done: Callable[[], bool]) -> None:
        deadline, pause_s = self._clock.monotonic() + _SETTLE_S, _PAUSE_S
        while not done():
            if self._clock.monotonic() > deadline:
                raise EnvironmentFailure(f"{otherwise} after {_SETTLE_S:.0f} s on {self._client_errors.servers}")
            # While a broker makes a large topic, every question slows it down.
            self._client.poll(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _has_leaders(topic: Any, spec: StreamSpec) -> bool:
    if topic is None or len(topic.partitions) < spec.partitions:
        return False
    return all(partition.leader >= 0 and partition.error is None for partition in topic.partitions.values())
