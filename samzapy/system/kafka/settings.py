"""Turns the job file's keys of a Kafka system into librdkafka's properties; says who a client with them is to its
cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, Producer

from samzapy.api.system import SystemSettings
from samzapy.config.reading.properties import MASK, is_secret
from samzapy.errors import ConfigError, ConfigProblem, raise_if_any

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: The properties that carry a guarantee, and the reason why a job file cannot set them.
_CARRIES_A_GUARANTEE = {
    "acks": "always all: a record that is acknowledged must not be lost",
    "auto.offset.reset": "always error; see streams.STREAM.samza.offset.default and samza.reset.offset",
    "client.id": "set by samzapy",
    "enable.auto.commit": "always false: offsets are in samzapy's checkpoints",
    "enable.auto.offset.store": "always false: offsets are in samzapy's checkpoints",
    "enable.gapless.guarantee": "always true without transactions: no record may overtake one that is refused",
    "enable.idempotence": "always true",
    "enable.partition.eof": "always false",
    "group.id": "set by samzapy: partitions are assigned by the job model",
    "group.instance.id": "partitions are assigned by the job model",
    "isolation.level": "always read_committed",
    "log.connection.close": "always true: lost connections renew a transactional producer",
    "log_level": "always 6: requests without an answer renew a transactional producer; see the logger samzapy.kafka",
    "partitioner": "always murmur2_random, as in Java",
    "plugin.library.paths": "loads code",
    "request.required.acks": "always all: a record that is acknowledged must not be lost",
    "socket.max.fails": "always 1: requests without an answer renew a transactional producer",
    "transactional.id": "set by samzapy: it is what fences an older attempt",
    "transaction.timeout.ms": "see task.transaction.timeout.ms",
}
#: Keys of Samza's job files that have no meaning here.
_IGNORED = frozenset({"zookeeper.connect", "producer.type"})
#: Properties that name files.
_FILES = frozenset(
    {"ssl.ca.location", "ssl.certificate.location", "ssl.crl.location", "ssl.key.location", "ssl.keystore.location"}
)
_CALLBACK = re.compile(r"(^logger$|^on_|_cb$|^default\.topic\.config$)")

#: A client connects to its bootstrap server, and then to a broker by its id. Between the two connections librdkafka
#: pauses for half of `reconnect.backoff.ms`, at least 11 ms: with its default of 100, every new client loses 40 ms, and
#: a start makes eight clients. A broker that is away is tried once a second after a while, as before.
#:
#: With sparse connections, its default, librdkafka 2.16.1 (and older ones) does not keep these pauses where a request
#: is what asks for the connection. While the broker is dead, an admin's request to the known controller or leader makes
#: 11,000 to 25,000 connects a second and takes a whole core, until it times out; a consumer takes 3 % of a core without
#: any broker. A client that keeps a connection to every broker pauses always.
_CONNECTING = {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "1000", "enable.sparse.connections": "false"}
_CONSUMER = {
    # librdkafka pauses a partition for this time when its queue is full: its default of a second would limit the rate.
    "fetch.queue.backoff.ms": "5",
    # What waits should still be in the processor's cache when it is read: librdkafka's defaults and more cost up to a
    # tenth more CPU. A broker far away needs more.
    "queued.min.messages": "50000",
    "queued.max.messages.kbytes": "16384",
    # A consumer has found its topics in the metadata before it reads. So librdkafka need not wait for 30 s, its
    # default, until it believes that one is gone.
    "topic.metadata.propagation.max.ms": "3000",
    # Consumers are polled all the time. A producer without work is not, and would keep its statistics until it is.
    "statistics.interval.ms": "10000",
    **_CONNECTING,
}
#: The largest value of queued.min.messages.
_MOST_RECORDS = "10000000"
_CONSUMER_FIXED = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "false",
    "isolation.level": "read_committed",
}
#: librdkafka's debug context with the ids of topics; a few lines for each answer to a request for metadata.
_NAMES_TOPIC_IDS = "metadata"
_PRODUCER = {
    # More saves CPU where a task sends at full speed message by message (a pass-through by 7 % with 5 ms), and every
    # message waits for it at the rates that most jobs have.
    "linger.ms": "1",
    "queue.buffering.max.messages": "250000",
    "queue.buffering.max.kbytes": "131072",
    **_CONNECTING,
}
#: Without transactions, the records behind a failed one cannot be taken back, and a receiver of ids considers lower ids
#: as seen. So no record may overtake a failed one: a refusal ends the producer, and a single record has no time-out; a
#: flush ends after its own time-out. In a transaction an abort takes everything back, and these properties would turn
#: an error that it heals into a fatal one.
_IN_ORDER = {"message.timeout.ms": "0"}
#: Nobody reads a record before its transaction is committed, and a commit sends at once what still waits. A
#: pass-through needs a fifth less CPU than with 1 ms.
_IN_TRANSACTION = {"linger.ms": "20"}
_IN_ORDER_FIXED = {"enable.gapless.guarantee": "true"}
_PRODUCER_FIXED = {"acks": "all", "enable.idempotence": "true", "partitioner": "murmur2_random"}
#: An admin connects as the consumer or the producer does: it takes these of their properties.
CONNECTION = re.compile(
    r"^(bootstrap\.servers|security\.|ssl\.|sasl\.|socket\.|broker\.address\.|client\.dns|reconnect\.|enable\.sparse\.)"
)


def bootstrap_servers(settings: SystemSettings) -> str:
    """The cluster's address; raises ConfigError if neither side names one."""
    result = settings.consumer.get("bootstrap.servers") or settings.producer.get("bootstrap.servers")
    if result:
        return result
    key = f"systems.{settings.name}.consumer.bootstrap.servers"
    raise ConfigError.of(key, None, "is required, e.g. localhost:9092")


def consumer_properties(settings: SystemSettings, client_id: str) -> dict[str, str]:
    """For a consumer of assigned partitions. Raises ConfigError for refused keys."""
    raise_if_any(_refused(f"systems.{settings.name}.consumer.", settings.consumer))
    return {
        **_CONSUMER,
        **_fetch_thresholds(settings),
        **_passed(settings.consumer),
        "bootstrap.servers": bootstrap_servers(settings),
        "client.id": client_id,
        "group.id": client_id,
        "debug": ",".join(filter(None, (settings.consumer.get("debug"), _NAMES_TOPIC_IDS))),
        **_CONSUMER_FIXED,
    }


def producer_properties(
    settings: SystemSettings, client_id: str, transactional_id: str | None, timeout_ms: int
) -> dict[str, str]:
    """For an idempotent producer, transactional if it is given an id. Raises ConfigError for refused keys."""
    raise_if_any(_refused(f"systems.{settings.name}.producer.", settings.producer))
    defaults, fixed = _IN_ORDER, _IN_ORDER_FIXED
    if transactional_id is not None:
        defaults = _IN_TRANSACTION
        fixed = {"transactional.id": transactional_id, "transaction.timeout.ms": str(timeout_ms)}
    return {
        **_PRODUCER,
        **defaults,
        **_passed(settings.producer),
        "bootstrap.servers": bootstrap_servers(settings),
        "client.id": client_id,
        **_PRODUCER_FIXED,
        **fixed,
    }


def admin_properties(settings: SystemSettings, client_id: str) -> dict[str, str]:
    """For an admin: how the consumer, or else the producer, connects."""
    both = {**_passed(settings.producer), **_passed(settings.consumer)}
    connection = {key: value for key, value in both.items() if CONNECTION.match(key)}
    named = {"bootstrap.servers": bootstrap_servers(settings), "client.id": client_id}
    return {**_CONNECTING, **connection, **named}


def check_settings(settings: SystemSettings) -> None:
    """Raise ConfigError with everything that librdkafka or a guarantee forbids. Connects to nothing."""
    raise_if_any(_problems(settings))


def _problems(settings: SystemSettings) -> Iterator[ConfigProblem]:
    try:
        bootstrap_servers(settings)
    except ConfigError as missing:
        yield from missing.problems
    for side, given in (("consumer", settings.consumer), ("producer", settings.producer)):
        prefix = f"systems.{settings.name}.{side}."
        known = [*_refused(prefix, given), *_unreadable_files(prefix, given)]
        yield from known
        left_out = {"bootstrap.servers", *(problem.key.removeprefix(prefix) for problem in known)}
        rest = {key: value for key, value in _passed(given).items() if key not in left_out}
        yield from _tried(prefix, side, rest)
    for key in ("samza.fetch.threshold", "samza.fetch.threshold.bytes"):
        value = settings.properties.get(key)
        if value is not None and not re.fullmatch(r"-?\d{1,18}", value):
            yield ConfigProblem(f"systems.{settings.name}.{key}", value, "expected an integer")


def _passed(given: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in given.items() if key not in _IGNORED}


def _fetch_thresholds(settings: SystemSettings) -> dict[str, str]:
    """Samza's read-ahead limits; a positive limit in bytes wins."""
    records = settings.properties.get("samza.fetch.threshold")
    size = int(settings.properties.get("samza.fetch.threshold.bytes", "-1"))
    if size > 0:
        return {"queued.max.messages.kbytes": str(max(1, size // 1024)), "queued.min.messages": _MOST_RECORDS}
    return {} if records is None else {"queued.min.messages": str(max(1, int(records)))}


def _refused(prefix: str, given: Mapping[str, str]) -> Iterator[ConfigProblem]:
    for key, value in given.items():
        reason = _CARRIES_A_GUARANTEE.get(key)
        if reason is None and _CALLBACK.search(key):
            reason = f'No such configuration property: "{key}"'
        if reason is not None:
            yield _problem(prefix + key, value, f"cannot be set ({reason})")


def _unreadable_files(prefix: str, given: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """The files of a connection that do not exist, or cannot be read: librdkafka's error would name neither file nor
    key."""
    for key, path in given.items():
        if key not in _FILES or (key == "ssl.ca.location" and path == "probe"):
            continue
        try:
            # A folder is a set of certificates of authorities.
            if not Path(path).is_dir():
                Path(path).open("rb").close()
        except (OSError, ValueError) as cause:
            reason = getattr(cause, "strerror", None) or str(cause)
            yield ConfigProblem(prefix + key, None, f"cannot read the file {path} ({reason})")


def _tried(prefix: str, side: str, given: dict[str, str]) -> list[ConfigProblem]:
    """The problems that librdkafka finds with the properties, together and then one by one, on a client without an
    address. Alone, a property of a connection may lack another one: only an error that names it is about it."""
    together = _reason(side, given)
    if together is None:
        return []
    alone = {key: _reason(side, {key: value}) for key, value in given.items()}
    result = [
        _problem(prefix + key, given[key], reason)
        for key, reason in alone.items()
        if reason is not None and (key in reason or not CONNECTION.match(key))
    ]
    return result or [ConfigProblem(prefix.removesuffix("."), None, together)]


def _reason(side: str, properties: dict[str, str]) -> str | None:
    try:
        if side == "consumer":
            Consumer({**_CONSUMER, **properties, **_CONSUMER_FIXED, "group.id": "check", "log_level": "0"}).close()
        else:
            Producer({**_PRODUCER, **properties, **_PRODUCER_FIXED, "log_level": "0"})
    except KafkaException as refusal:
        return " ".join(str(refusal.args[0].str()).split())
    except (TypeError, ValueError) as refusal:
        return str(refusal)
    return None


def _problem(key: str, value: str, message: str) -> ConfigProblem:
    if is_secret(key):
        return ConfigProblem(key, MASK, message.replace(value, MASK) if value else message)
    return ConfigProblem(key, value, message)


#: The client's own certificate.
_CERTIFICATE = "ssl.certificate.location"


def principal(properties: Mapping[str, str]) -> str:
    """The principal for people, as far as the properties tell it: `User:bob`, or the subject of a client
    certificate."""
    if properties.get("security.protocol", "").lower().startswith("sasl"):
        name = properties.get("sasl.username") or properties.get("sasl.kerberos.principal", "")
    else:
        certificate = _certificate(properties)
        name = "" if certificate is None else certificate.subject.rfc4514_string()
    return f"User:{name}" if name else "this client"


def expired_certificate(properties: Mapping[str, str], wall_ms: int) -> str:
    """The file of the client's certificate and when it expired; empty if it is valid, unknown or not needed."""
    certificate = _certificate(properties)
    if certificate is None or certificate.not_valid_after_utc.timestamp() * 1000 > wall_ms:
        return ""
    when = certificate.not_valid_after_utc.isoformat(timespec="seconds")
    return f"the certificate of the client expired at {when} ({_CERTIFICATE}={properties[_CERTIFICATE]})"


def _certificate(properties: Mapping[str, str]) -> Certificate | None:
    """The first certificate of the client's file; None if there is none, or it cannot be read."""
    path = properties.get(_CERTIFICATE)
    if path is None:
        return None
    # Most clients have no certificate.
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415

    try:
        return load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError):
        return None
