"""Wraps one librdkafka handle: its memory, log lines, errors and statistics, the cluster's metadata, the extension."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from math import inf
from types import ModuleType
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, cimpl
from confluent_kafka.admin import AdminClient

from samzapy import native
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock, Measured
from samzapy.errors import ConfigError, HandshakeFailed, SamzapyError, UnknownPartition, UnknownStream, Unreachable
from samzapy.system.kafka.errors import UNKNOWN_PARTITION, error_of, general_error, is_refused, one_line
from samzapy.system.kafka.gate import Gate
from samzapy.system.kafka.settings import CONNECTION, expired_certificate, principal

#: mallopt's number for the greatest number of arenas.
_M_ARENA_MAX = -8
_MOST = 256


@cache
def give_threads_arenas() -> bool:
    """Give every thread a separate arena of glibc's malloc; False without glibc, or if the user has set the number.

    By default there are eight arenas for each core, and a client has three threads or more. So on two cores a few
    clients share arenas with each other and with the thread that runs the tasks: it waits for them, and its memory is
    fragmented. That cost a pass-through job 13 % more CPU. The call must come before there are more than eight arenas.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        # musl has none.
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MOST))
    except (OSError, AttributeError):
        return False


#: Gets librdkafka's log lines; silent unless a program gives it a handler.
LOGGER = logging.getLogger("samzapy.kafka")
LOGGER.addHandler(logging.NullHandler())

#: The longest time in which a client tries to reach its cluster, in seconds.
REACH_S = 10.0
#: The longest wait of the first attempt. Each one waits twice as long as the one before: a busy broker may take
#: seconds, and the answer to an attempt that was given up is lost.
_FIRST_ATTEMPT_S = 1.0
_PAUSE_S = 0.1
#: librdkafka's names for its lines about lost connections and requests without an answer.
_DISTURBANCES = frozenset({"FAIL", "REQTMOUT"})
#: A connection that failed before it was up has carried no request.
_NEVER_UP = re.compile(r"in state (INIT|TRY_CONNECT|CONNECT|SSL_HANDSHAKE|AUTH_\w+|APIVERSION_QUERY)[,)]")
#: librdkafka's line about a partition that it could not add to a transaction for a lack of rights.
_REFUSED_PARTITION = re.compile(r'partition "(.+)" \[(\d+)\] to transaction: .*authorization failed', re.IGNORECASE)
#: librdkafka warns at every start that this property is experimental. It is set on purpose.
_ON_PURPOSE = "enable.gapless.guarantee"
#: The line of librdkafka's debug context `metadata` about a topic whose id is new to the client. It is written before
#: the client fetches by that id, so nothing of a topic that was created again is fetched before its line.
_CHANGED_ID = re.compile(r"Topic (\S+) changed id from \S+ to (\S+)$")
#: Such a line contains this text if the first request of a connection was not answered.
_FIRST_WORD = "in state APIVERSION_QUERY"
#: A connection that was lost during a handshake, and a handshake that failed for that: the broker may speak no TLS.
_LOST, _HANDSHAKE = ": Disconnected: ", "SSL handshake failed"


#: The longest time for which the asked broker may not know a topic that others know.
_NEWS_S, _NEWS_PAUSE_S = 5.0, 0.1
#: Up to this many topics are asked for one by one; for more, the metadata of all topics are fetched, which is slow on a
#: large cluster.
_FEW_TOPICS = 8


class PartitionCounts(NamedTuple):
    """What one broker knows: the number of partitions by topic, and the number of brokers."""

    counts: dict[str, int]
    brokers: int


class ClientStatistics:
    """The newest statistics of a handle: librdkafka hands a JSON text to `note` every `statistics.interval.ms`, on the
    thread that polls.

    Counters go on when another handle takes the place of one that was closed. Gauges are left out when the statistics
    are old, because nobody polls the handle or it was closed.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, period_s: float = 10.0) -> None:
        """`period_s`: seconds between two statistics."""
        self._clock = clock
        self.period_s = period_s
        self._handle = ""
        #: The counters of the handles before.
        self._before: Mapping[str, float] = {}
        self._counters: Mapping[str, float] = {}
        self._gauges = Measured[Mapping[str, float]]({}, 0.0)

    def note(self, text: str) -> None:
        """Take new statistics."""
        result = json.loads(text)
        if result["name"] != self._handle:
            self._handle, self._before = result["name"], self._counters
        self._counters = {name: self._before.get(name, 0) + count for name, count in _counters(result).items()}
        self._gauges = Measured(_gauges(result), self._clock.monotonic())

    def metrics(self) -> Mapping[str, float]:
        """The numbers of the newest statistics by name, none before the first; from any thread."""
        gauges = self._gauges
        return {**self._counters, **(gauges.value if gauges.is_known(self._clock.monotonic(), self.period_s) else {})}


def _counters(result: dict[str, Any]) -> dict[str, float]:
    def of_brokers(*names: str) -> int:
        return sum(broker.get(name, 0) for broker in result.get("brokers", {}).values() for name in names)

    return {
        "requests": result.get("tx", 0),
        "sent-bytes": result.get("tx_bytes", 0),
        "received-bytes": result.get("rx_bytes", 0),
        "messages-sent": result.get("txmsgs", 0),
        "messages-received": result.get("rxmsgs", 0),
        "request-errors": of_brokers("txerrs", "rxerrs"),
        "request-retries": of_brokers("txretries"),
        "request-timeouts": of_brokers("req_timeouts"),
        "disconnects": of_brokers("disconnects"),
    }


def _gauges(result: dict[str, Any]) -> dict[str, float]:
    # Brokers with a number; librdkafka lists the addresses that it began with besides.
    brokers = [broker for broker in result.get("brokers", {}).values() if broker.get("nodeid", -1) >= 0]
    partitions = [item for topic in result.get("topics", {}).values() for item in topic.get("partitions", {}).values()]
    return {
        "queued-messages": result.get("msg_cnt", 0),
        "queued-bytes": result.get("msg_size", 0),
        "fetched-messages": sum(item.get("fetchq_cnt", 0) for item in partitions),
        "fetched-bytes": sum(item.get("fetchq_size", 0) for item in partitions),
        "brokers-up": sum(broker.get("state") == "UP" for broker in brokers),
        "round-trip-p99-us": max((broker.get("rtt", {}).get("p99", 0) for broker in brokers), default=0),
        "throttle-ms": max((broker.get("throttle", {}).get("avg", 0) for broker in brokers), default=0),
    }


class Connection:
    """What the parts of one client share: the `properties` of its handles, the errors that these report outside of
    their calls, their `statistics`, and the `gate` that the requests of this process to the cluster pass.

    Messages name `system`, `servers`, and `who` the client is. `refused_partition`: the topic and partition that a
    transaction was not allowed to write to, which librdkafka only logs. `disturbed`: a connection was lost or a request
    was not answered in time, so librdkafka may have sent something twice. A broker that is away and refuses every new
    connection is no disturbance: a producer that took over at each of them would do nothing else.
    """

    def __init__(
        self,
        system: str,
        servers: str,
        properties: Mapping[str, str] | None = None,
        gate: Gate | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Without `gate`, the client has one of its own."""
        self.properties = properties or {}
        self.who = principal(self.properties)
        self.refused_partition = ""
        self.system = system
        self.servers = servers
        self.gate = gate or Gate(servers)
        self.clock = clock
        self.refusal: KafkaError | None = None
        self.last = ""
        self.disturbed = False
        #: librdkafka has not found a partition in the cluster's metadata since this was set to False.
        self.missing = False
        self.statistics = ClientStatistics()
        #: By topic, the ids that the client has learned since its consumer looked last.
        self.new_ids: dict[str, str] = {}

    def handle(self, kind: type, properties: Mapping[str, Any] | None = None) -> Any:
        """A Consumer, Producer or AdminClient, by default with the client's own properties. Raises ConfigError for
        properties that librdkafka refuses."""
        give_threads_arenas()
        given = self.properties if properties is None else properties
        self.statistics.period_s = float(given.get("statistics.interval.ms", 0)) / 1000
        try:
            return kind({**given, "error_cb": self.note, "stats_cb": self.statistics.note, "logger": self})
        except KafkaException as cause:
            key = f"systems.{self.system}.{'producer' if kind.__name__ == 'Producer' else 'consumer'}"
            raise ConfigError.of(key, None, one_line(error_of(cause))) from cause

    def note(self, error: KafkaError) -> None:
        """Take an error: librdkafka's `error_cb`."""
        text = one_line(error)
        # After the reason for a lost connection librdkafka also reports that it is lost, or that all are: less useful.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.disturbed |= _NEVER_UP.search(text) is None
            if _LOST not in text or _HANDSHAKE not in self.last:
                self.last = text
        if error.code() in UNKNOWN_PARTITION:
            self.missing = True
        if is_refused(error):
            self.refusal = error

    def log(self, level: int, form: str, facility: str, client: str, line: str) -> None:
        """Take a log line: librdkafka's `logger`, the only place where it reports most lost connections and late
        answers."""
        if facility in _DISTURBANCES:
            self.disturbed |= _NEVER_UP.search(line) is None
            if _FIRST_WORD in line:
                protocol = f"systems.{self.system}.consumer.security.protocol"
                self.last = f"it closes connections at once; is {protocol} right?"
                if "Timed out" in line:
                    self.last = f"it takes connections and does not answer: is it frozen, or is {protocol} wrong?"
        elif facility == "ADDPARTS" and (result := _REFUSED_PARTITION.search(line)):
            self.refused_partition = f"{result[1]}[{result[2]}]"
        elif facility == "METADATA" and (changed := _CHANGED_ID.search(line)) is not None:
            self.new_ids[changed[1]] = changed[2]
        if facility in _DISTURBANCES or (facility == "CONFWARN" and _ON_PURPOSE in line):
            # In an outage the clients of a process lose thousands of connections; `last` has the reason.
            level = logging.DEBUG
        LOGGER.log(level, form, facility, client, line)

    def check(self) -> None:
        """Raise HandshakeFailed if the cluster has refused this client. A connection that was lost in the middle of a
        handshake may only mean that a broker shuts down."""
        if self.refusal is not None:
            expired = expired_certificate(self.properties, SYSTEM_CLOCK.wall_ms())
            if expired:
                raise HandshakeFailed(f"{self.servers}: TLS handshake failed: {expired}")
            raise self.general_error(self.refusal)

    def general_error(self, error: KafkaError, where: str = "", operation: str = "") -> SamzapyError:
        """The error for a failed call, as of `errors.general_error`. `where`: by default, the servers."""
        return general_error(error, self.system, where or self.servers, operation, self.who)

    def unreachable(self, waited_s: float) -> SamzapyError:
        """The error for a cluster that did not answer in time."""
        expired = expired_certificate(self.properties, SYSTEM_CLOCK.wall_ms())
        if expired:
            return HandshakeFailed(f"cannot reach {self.servers} within {waited_s:.0f} s: {expired}")
        reason = f" ({self.last})" if self.last else ""
        if "systems." not in reason:
            reason += f"; start the broker, or correct systems.{self.system}.consumer.bootstrap.servers"
        away = Unreachable(f"cannot reach {self.servers} within {waited_s:.0f} s{reason}")
        away.ask = self._ask_anew
        return away

    def _ask_anew(self) -> None:
        """Ask the cluster, with a client for that alone. Raises as `reach`."""
        own = {key: value for key, value in self.properties.items() if CONNECTION.match(key)}
        self.reach(self.handle(AdminClient, own))

    def reach(self, client: Any, topic: str | None = None) -> Any:
        """The cluster's metadata, of all topics or of one; any broker answers, so this needs no controller and no
        leader.

        A broker that is starting may answer with an empty list of brokers: it is asked again. Raises HandshakeFailed if
        the cluster refuses this client, and Unreachable if it does not answer within 10 s.
        """
        return self.gate.ask(partial(self._metadata, client, topic), proves=False)

    def _metadata(self, client: Any, topic: str | None) -> Any:
        deadline = self.clock.monotonic() + REACH_S
        attempt_s = _FIRST_ATTEMPT_S
        while True:
            left = deadline - self.clock.monotonic()
            cause: KafkaException | None = None
            try:
                metadata = client.list_topics(topic, timeout=max(0.1, min(left, attempt_s)))
                if metadata.brokers:
                    return metadata
            except KafkaException as failure:
                # Its traceback would keep the client until the next garbage collection, and with it its threads.
                cause = failure.with_traceback(None)
            attempt_s *= 2
            # poll delivers errors; its wait also keeps a refused connection from being retried in a busy loop.
            client.poll(_PAUSE_S)
            self.check()
            if self.clock.monotonic() >= deadline:
                raise self.unreachable(REACH_S) from cause

    def partition_counts(
        self, client: Any, needed: Collection[SystemStreamPartition], ask: Callable[[], PartitionCounts]
    ) -> dict[str, int]:
        """The number of partitions of the topics, by name; the `needed` ones exist. `ask` returns the answer of one
        broker.

        Brokers learn of a new topic, or of more partitions, one after another, and any of them may answer. So with
        several brokers, missing ones are asked for again for 5 s. Raises UnknownStream, UnknownPartition.
        """
        deadline = self.clock.monotonic() + _NEWS_S
        while True:
            counts, brokers = ask()
            missing = next((ssp for ssp in needed if ssp.partition >= counts.get(ssp.stream, 0)), None)
            if missing is None:
                return counts
            if brokers < 2 or self.clock.monotonic() > deadline:  # one knows all there is to know
                if missing.stream in counts:
                    raise UnknownPartition(*missing, counts[missing.stream])
                raise UnknownStream(missing.system, missing.stream, self.servers)
            client.poll(_NEWS_PAUSE_S)

    def all_counts(self, client: Any) -> PartitionCounts:
        """The counts of every topic of the cluster. For producers: if they ask for one topic, that may create it."""
        return _counted(self.reach(client))

    def counts_of(self, client: Any, topics: Collection[str]) -> PartitionCounts:
        """The counts of `topics` at least. For consumers: their requests create no topic."""
        if len(topics) > _FEW_TOPICS:
            return self.all_counts(client)
        counts, brokers = dict[str, int](), 0
        for topic in topics:
            of_topic, brokers = _counted(self.reach(client, topic))
            counts.update(of_topic)
        return PartitionCounts(counts, brokers)


def _counted(cluster: Any) -> PartitionCounts:
    counts = {name: len(topic.partitions) for name, topic in cluster.topics.items() if topic.partitions}
    return PartitionCounts(counts, len(cluster.brokers))


#: Seconds for which a topic must be missing from the answers of a cluster until it counts as deleted, the pause between
#: two requests, and the time-out of one.
_DELETED_S, _DELETED_PAUSE_S, _DELETED_ANSWER_S = 3.0, 0.5, 1.0


class DeletedTopics:
    """Finds out which topics of a running client were deleted.

    A broker that starts, or that learns of a topic later than others, may not know the topic for a moment. So a topic
    is deleted if no answer within 3 s has it. Calls no callbacks, and returns no records of the client.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._asked_at = -inf
        #: By topic, the time of the first answer without it.
        self._since: dict[str, float] = {}
        #: Whether the last call of `find` has got an answer with all topics.
        self.settled = False

    def find(self, client: Any, topics: Collection[str], *, one_by_one: bool) -> str | None:
        """A deleted topic; None if there is none, or if that is not certain yet: unless `settled`, call it again then.
        `one_by_one`: ask for a few topics by name, which creates no topic if a consumer asks."""
        self.settled = False
        if self._clock.monotonic() < self._asked_at + _DELETED_PAUSE_S:
            return None
        names = topics if one_by_one and len(topics) <= _FEW_TOPICS else [None]
        try:
            answers = [_counted(client.list_topics(name, timeout=_DELETED_ANSWER_S)) for name in names]
        except KafkaException:
            return None  # an outage says nothing about topics
        finally:
            now = self._asked_at = self._clock.monotonic()
        if not all(brokers for _, brokers in answers):
            return None
        known = {name for counts, _ in answers for name in counts}
        self._since = {topic: self._since.get(topic, now) for topic in topics if topic not in known}
        self.settled = not self._since
        return next((topic for topic, since in self._since.items() if now - since >= _DELETED_S), None)


def _bound() -> ModuleType | None:
    """The extension with librdkafka's functions; None without an extension, or if librdkafka lacks one of them."""
    extension = native.extension
    # librdkafka loads it as a plugin, and takes a list of paths.
    if extension is None or ";" in str(extension.__file__):
        return None
    try:
        # confluent-kafka's module also finds what is in the libraries that it needs.
        library = ctypes.CDLL(cimpl.__file__)
        extension.bind_librdkafka(
            {
                name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                for name in extension.LIBRDKAFKA_FUNCTIONS
            }
        )
    except (OSError, AttributeError) as cause:
        LOGGER.warning("librdkafka's functions are not found, so reading and writing takes more time: %s", cause)
        return None
    return extension


#: None: records are fetched and produced by confluent-kafka.
extension = _bound()

#: The shared libraries that librdkafka loads. The extension is one, and so learns of each new client's handle.
_PLUGINS = "plugin.library.paths"


def with_extension(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a client whose handle the extension gets, next to the plugins that the job has chosen."""
    assert extension is not None
    paths = filter(None, (properties.get(_PLUGINS), extension.__file__))
    return {**properties, _PLUGINS: ";".join(paths)}
