"""Reads and changes a Kafka cluster's topics.

Every request passes the gate of the cluster. A request that only reads has a short time-out and is repeated; the client
of a request without an answer is closed, since the next one learns from the bootstrap servers who the controller is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as TooLate
from functools import partial
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, StreamDescription, StreamSpec, SystemAdmin
from samzapy.errors import ConfigError, EnvironmentFailure, OffsetOutOfRange, RetriableError, UnknownStream
from samzapy.system.clients import SystemLimits
from samzapy.system.kafka.client import Connection, PartitionCounts
from samzapy.system.kafka.consumer import GroupPositions
from samzapy.system.kafka.errors import BETWEEN_LEADERS, SILENCE, UNKNOWN_TOPIC, error_of, one_line
from samzapy.system.kafka.gate import Gate

#: The time-out of a request that changes something, which is not repeated.
_CHANGE_S = 15.0
#: The time-out of the first request that only reads, of the longest one, and the time for all repetitions. Each one
#: waits twice as long as the one before: a busy broker may take seconds.
_READ_S, _LONGEST_READ_S, _PATIENCE_S = 3.0, 12.0, 20.0
#: The time-out of one request for offsets. librdkafka sends it to the leader that it knows, and asks for the leaders
#: again only after the time-out.
_OFFSETS_S = 2.0
#: The longest time until a topic's creation or deletion shows in the metadata, and the additional time for each new
#: partition: a broker makes folders and files for each of them before it leads it.
_SETTLE_S, _SETTLE_PARTITION_S = 30.0, 0.05
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
#: The broker's answer to the offset of a time after the last record.
_NONE_SO_LATE = -1
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
#: A later answer may be another one: the leader is being chosen, moves, or does not answer.
_MAY_CHANGE = BETWEEN_LEADERS | SILENCE | {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._NOENT}  # noqa: SLF001


#: Kafka's transaction log. No job needs it, so it counts as missing for a user without a right to it.
_TRANSACTION_LOG = "__transaction_state"


class _NoOffset(RetriableError):
    """There is no offset for a partition, because of `error`."""

    def __init__(self, ssp: SystemStreamPartition, error: KafkaError) -> None:
        super().__init__(ssp, error)
        self.ssp = ssp
        self.error = error
        self.outage = error.code() in SILENCE


class KafkaAdmin(SystemAdmin):
    """Each call waits at most 30 s and raises EnvironmentFailure or RetriableError after that."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._clock = connection.clock
        self._made: Any = None
        self._closed = False
        self._groups: dict[str, GroupPositions] = {}
        #: Topics that the controller has created, or reported to exist.
        self._known: set[str] = set()
        #: Brokers of the cluster at the first contact.
        self._brokers = 0
        #: The number of partitions of each topic in the last metadata.
        self._counts: dict[str, int] = {}

    def create(self, spec: StreamSpec) -> bool:
        return bool(self.create_all([spec]))

    def create_all(self, specs: Iterable[StreamSpec]) -> set[str]:
        """One request for all, and one wait. If one topic fails, the others are created nevertheless."""
        by_name = {spec.stream: spec for spec in specs}
        for spec in by_name.values():
            if spec.partitions < 1:
                raise ConfigError.of(f"{spec.stream}: partitions", str(spec.partitions), "expected an integer >= 1")
        if not by_name:
            return set()
        new = [_new_topic(spec) for spec in by_name.values()]
        answers = self._change(lambda client: client.create_topics(new, request_timeout=_CHANGE_S))
        built = {stream: spec for stream, spec in by_name.items() if self._was_made(stream, answers[stream])}
        self._wait_for_leaders(built)
        return set(built)

    def _was_made(self, stream: str, answer: Any) -> bool:
        if isinstance(answer, KafkaError) and answer.code() in _IMPOSSIBLE:
            raise ConfigError.of(stream, None, one_line(answer))
        existed = isinstance(answer, KafkaError) and answer.code() == KafkaError.TOPIC_ALREADY_EXISTS
        if not existed:
            self._result(answer, stream, "CREATE")
        self._known.add(stream)
        return not existed

    def _wait_for_leaders(self, built: Mapping[str, StreamSpec]) -> None:
        def leaderless() -> str | None:
            result = self._topics(built)
            return next((name for name, spec in built.items() if not _has_leaders(result.get(name), spec)), None)

        if built:
            patience_s = _SETTLE_S + _SETTLE_PARTITION_S * sum(spec.partitions for spec in built.values())
            self._wait("has no leaders", leaderless, patience_s)
            # The metadata name a leader a little before the broker knows that it is the leader.
            system = self._connection.system
            of_all = [
                SystemStreamPartition(system, name, number)
                for name, spec in built.items()
                for number in range(spec.partitions)
            ]
            self._list_offsets(of_all, OffsetSpec.latest(), patience_s=patience_s)

    def describe(self, stream: str) -> StreamDescription | None:
        return self.describe_all([stream])[stream]

    def describe_all(self, streams: Iterable[str]) -> dict[str, StreamDescription | None]:
        """Two requests for all of them: one for the partitions, one for the configurations."""
        names = list(dict.fromkeys(streams))
        result = self._describe(names)
        deadline = self._clock.monotonic() + _SETTLE_S
        # Brokers learn of a topic one after another, and any of them may answer.
        while self._known & set(names) - result.keys() and self._clock.monotonic() < deadline:
            self._client.poll(_PAUSE_S)
            result = self._describe(names)
        return {stream: result.get(stream) for stream in names}

    def _describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        """The descriptions of the existing streams."""
        topics = self._topics(streams, include_authorized_operations=True)
        if not topics:
            return {}
        resources = {ConfigResource(ResourceType.TOPIC, stream): stream for stream in topics}
        answers = self._read(
            lambda client, time_out: client.describe_configs(list(resources), request_timeout=time_out)
        )
        described = {}
        for resource, stream in resources.items():
            topic = topics[stream]
            try:
                config, hidden = self._settings(answers[resource], stream)
            except UnknownStream:
                continue  # deleted a moment ago
            replicas = min((len(partition.replicas) for partition in topic.partitions), default=None)
            count, identity, allowed = len(topic.partitions), str(topic.topic_id), topic.authorized_operations
            names = None if allowed is None else frozenset(operation.name for operation in allowed)
            described[stream] = StreamDescription(stream, count, identity, config, replicas, hidden, names)
        return described

    def _settings(self, answer: Any, stream: str) -> tuple[dict[str, str], str]:
        """The settings of a topic. If the user may not see them: none, and the reason. Inputs and outputs need none."""
        if isinstance(answer, KafkaError):
            failure = self._connection.general_error(answer, stream, "DESCRIBE_CONFIGS")
            if answer.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise failure
            return {}, str(failure)
        return {name: entry.value for name, entry in answer.items() if entry.value is not None}, ""

    def _topics(self, streams: Collection[str], **options: bool) -> dict[str, Any]:
        """The metadata of the existing streams. Other topics are not requested: a large cluster takes long to send
        all."""
        if not streams:
            return {}
        asked = TopicCollection(list(streams))
        result = self._read(lambda client, time_out: client.describe_topics(asked, request_timeout=time_out, **options))
        for stream, answer in list(result.items()):
            if not isinstance(answer, KafkaError):
                continue
            del result[stream]
            if answer.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and stream == _TRANSACTION_LOG:
                continue
            if answer.code() not in UNKNOWN_TOPIC and answer.code() != KafkaError.TOPIC_EXCEPTION:
                raise self._connection.general_error(answer, stream, "DESCRIBE")
        return result

    def list_streams(self) -> list[str]:
        return sorted(name for name in self._connection.reach(self._client).topics if not name.startswith("__"))

    def offsets(
        self, ssps: Iterable[SystemStreamPartition], *, committed: bool = False
    ) -> dict[SystemStreamPartition, OffsetRange]:
        chosen = list(ssps)
        oldest, upcoming = self._list_offsets(chosen, OffsetSpec.earliest(), OffsetSpec.latest(), committed=committed)
        return {ssp: OffsetRange(oldest[ssp], upcoming[ssp]) for ssp in chosen}

    def ends(self, ssps: Iterable[SystemStreamPartition], *, committed: bool) -> dict[SystemStreamPartition, int]:
        return self._list_offsets(list(ssps), OffsetSpec.latest(), committed=committed)[0]

    def mirror(self, group: str, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Raises EnvironmentFailure where the broker does not allow it, or where another consumer is a member."""
        if group not in self._groups:
            self._groups[group] = GroupPositions(group, self._connection)
        try:
            self._gate.ask(partial(self._groups[group].commit, positions))
        except RetriableError:
            self._groups.pop(group).close()
            raise

    def offsets_at(self, ssps: Iterable[SystemStreamPartition], time_ms: int) -> dict[SystemStreamPartition, int]:
        (result,) = self._list_offsets(list(ssps), OffsetSpec.for_timestamp(int(time_ms)))
        none = [ssp for ssp, offset in result.items() if offset < 0]
        return result | self.ends(none, committed=False)

    def delete_records(self, ssp: SystemStreamPartition, before: int) -> None:
        oldest, upcoming = self.offsets([ssp])[ssp]
        if before > upcoming:
            raise OffsetOutOfRange(ssp, before, oldest, upcoming)
        if before > oldest:
            at = TopicPartition(ssp.stream, ssp.partition, before)
            answers = self._change(lambda client: client.delete_records([at], request_timeout=_CHANGE_S))
            self._result(next(iter(answers.values())), str(ssp), "DELETE")

    def delete(self, stream: str) -> None:
        self._known.discard(stream)
        self._counts.pop(stream, None)
        answers = self._change(lambda client: client.delete_topics([stream], request_timeout=_CHANGE_S))
        self._result(answers[stream], stream, "DELETE")
        self._wait("is still there", lambda: None if self.describe(stream) is None else stream)

    def limits(self) -> SystemLimits:
        """By the settings of a broker; unknown without the right to see them."""
        brokers = self._connection.reach(self._client).brokers
        resource = ConfigResource(ResourceType.BROKER, str(min(brokers)))
        answers = self._read(lambda client, time_out: client.describe_configs([resource], request_timeout=time_out))
        answer = answers[resource]
        settings = {} if isinstance(answer, KafkaError) else {name: entry.value for name, entry in answer.items()}
        transaction_ms, record_bytes = settings.get("transaction.max.timeout.ms"), settings.get("message.max.bytes")
        return SystemLimits(
            None if transaction_ms is None else int(transaction_ms),
            None if record_bytes is None else int(record_bytes),
            len(brokers),
        )

    def close(self) -> None:
        self._closed = True
        for group in self._groups.values():
            group.close()
        self._groups.clear()
        self._made = None

    @property
    def _client(self) -> Any:
        if self._closed:
            raise EnvironmentFailure(f"the admin of system '{self._connection.system}' is closed")
        if self._made is None:
            client = self._connection.handle(AdminClient)
            self._brokers = len(self._connection.reach(client).brokers)
            self._made = client
        return self._made

    @property
    def _gate(self) -> Gate:
        return self._connection.gate

    def _change(self, ask: Callable[[Any], Mapping[Any, Any]]) -> dict[Any, Any]:
        """The answers to a request that changes something, as of `_answers`."""
        return self._gate.ask(lambda: self._answers(ask))

    def _read(self, ask: Callable[[Any, float], Mapping[Any, Any]]) -> dict[Any, Any]:
        """The answers to a request that only reads, as of `_answers`. `ask` gets the client and the request's
        time-out."""
        time_out = _READ_S

        def once() -> dict[Any, Any]:
            nonlocal time_out
            this, time_out = time_out, min(2 * time_out, _LONGEST_READ_S)
            return self._answers(lambda client: ask(client, this))

        return self._gate.ask(once, _PATIENCE_S)

    def _answers(self, ask: Callable[[Any], Mapping[Any, Any]]) -> dict[Any, Any]:
        """Each answer, or the KafkaError that the cluster has answered with. Raises RetriableError and closes the
        client if it has not answered."""
        try:
            return {key: _outcome(answer) for key, answer in ask(self._client).items()}
        except KafkaException as cause:
            self._made = None
            raise self._connection.general_error(error_of(cause), "", "DESCRIBE") from cause

    def _list_offsets(
        self, ssps: list[SystemStreamPartition], *specs: Any, committed: bool = False, patience_s: float = _SETTLE_S
    ) -> list[dict[SystemStreamPartition, int]]:
        """The offsets by each of `specs`; asks again for up to `patience_s` while a leader is away or does not answer.

        Asks for the partitions of the topics only if one is unknown, or an answer contradicts the known ones.
        """
        deadline, pause_s = self._clock.monotonic() + patience_s, _PAUSE_S
        ask = partial(self._counts_of, {ssp.stream for ssp in ssps})
        while ssps:
            known = all(ssp.partition < self._counts.get(ssp.stream, 0) for ssp in ssps)
            if not known:
                self._counts.update(self._connection.partition_counts(self._client, ssps, ask))
            try:
                return self._gate.ask(partial(self._list_offsets_once, ssps, specs, committed=committed))
            except _NoOffset as failed:
                if failed.outage:
                    self._made = None
                self._counts = {}
                # librdkafka learns of new leaders by these metadata.
                ask = partial(self._connection.all_counts, self._client)
                lost = failed.error.code() not in _MAY_CHANGE or self._clock.monotonic() > deadline
                if lost and not known:
                    where = f"{failed.ssp} on {self._connection.servers}"
                    raise self._connection.general_error(failed.error, where, "DESCRIBE") from failed
                self._client.poll(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return [{} for _ in specs]

    def _counts_of(self, streams: Collection[str]) -> PartitionCounts:
        counts = {name: len(topic.partitions) for name, topic in self._topics(streams).items()}
        return PartitionCounts(counts, self._brokers)

    def _list_offsets_once(
        self, ssps: list[SystemStreamPartition], specs: Sequence[Any], *, committed: bool
    ) -> list[dict[SystemStreamPartition, int]]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = [
            self._client.list_offsets(
                {TopicPartition(ssp.stream, ssp.partition): spec for ssp in ssps},
                isolation_level=level,
                request_timeout=_OFFSETS_S,
            )
            for spec in specs
        ]
        result = []
        for answers in asked:
            by_partition = {(at.topic, at.partition): answer for at, answer in answers.items()}
            result.append({ssp: self._offset(ssp, by_partition[ssp[1:]]) for ssp in ssps})
        return result

    def _offset(self, ssp: SystemStreamPartition, answer: Any) -> int:
        """The offset in the answer; -1 if no record is as late as asked."""
        try:
            offset = int(_settled(answer).offset)
        except KafkaException as cause:
            raise _NoOffset(ssp, error_of(cause)) from cause
        if offset < _NONE_SO_LATE:
            # librdkafka's answer without an error for a partition that no broker has answered for.
            raise _NoOffset(ssp, KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
        return offset

    def _result(self, answer: Any, where: str, operation: str) -> None:
        if isinstance(answer, KafkaError):
            raise self._connection.general_error(answer, where, operation)

    def _wait(self, otherwise: str, missing: Callable[[], str | None], patience_s: float = _SETTLE_S) -> None:
        """Wait until `missing` returns no name of a topic that is not as it should be."""
        deadline, pause_s = self._clock.monotonic() + patience_s, _PAUSE_S
        while (stream := missing()) is not None:
            if self._clock.monotonic() > deadline:
                where = f"after {patience_s:.0f} s on {self._connection.servers}"
                raise EnvironmentFailure(f"topic '{stream}' {otherwise} {where}")
            # While a broker creates a large topic, every request slows it down.
            self._client.poll(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _settled(answer: Any) -> Any:
    """The answer to a request. Raises KafkaException, also if librdkafka does not answer within its own time limit: it
    cannot while the process is stopped."""
    try:
        return answer.result(_SETTLE_S)
    except TooLate as cause:
        late = KafkaError(KafkaError._TIMED_OUT, f"no answer within {_SETTLE_S:.0f} s")  # noqa: SLF001
        raise KafkaException(late) from cause


def _outcome(answer: Any) -> Any:
    """The answer to a request, or the KafkaError of the cluster's answer. Raises KafkaException without an answer."""
    try:
        return _settled(answer)
    except KafkaException as cause:
        error = error_of(cause)
        if error.code() in SILENCE:
            raise
        return error


def _has_leaders(topic: Any, spec: StreamSpec) -> bool:
    if topic is None or len(topic.partitions) < spec.partitions:
        return False
    return all(partition.leader is not None and partition.leader.id >= 0 for partition in topic.partitions)


def _new_topic(spec: StreamSpec) -> Any:
    factor = -1 if spec.replication_factor is None else spec.replication_factor
    return NewTopic(spec.stream, spec.partitions, factor, config=dict(spec.config))
