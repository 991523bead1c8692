"""Translates librdkafka's errors into samzapy's, by the reaction that they need."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError, KafkaException

from samzapy.errors import (
    EnvironmentFailure,
    HandshakeFailed,
    NotAuthorised,
    ProducerError,
    ProducerFenced,
    RecordRefused,
    RecordTooLarge,
    RetriableError,
    SamzapyError,
    TransactionAborted,
    TransactionIndeterminate,
    TransactionsRefused,
    UnknownStream,
)

UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})  # noqa: SLF001
#: The metadata of the cluster do not have the topic, or the partition, at the moment.
UNKNOWN_PARTITION = UNKNOWN_TOPIC | {KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
#: The broker refuses the record, and will refuse it again.
REFUSED = frozenset({*TOO_LARGE, KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD})

#: Another producer has taken over, or the broker has ended the transaction: this producer is finished.
_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
_UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._DESTROY_BROKER,  # noqa: SLF001  # the broker that was asked has left the metadata
        KafkaError._UNKNOWN_BROKER,  # noqa: SLF001
        KafkaError._NODE_UPDATE,  # noqa: SLF001  # it has another address now
    }
)
_TIMED_OUT = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT}  # noqa: SLF001
)
#: The partition has no leader at the moment, or the asked broker is no longer or not yet its leader.
BETWEEN_LEADERS = frozenset(
    {
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,  # a disk of the leader has failed, and another copy becomes the leader
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
#: The asked broker has not answered.
SILENCE = _UNREACHABLE | _TIMED_OUT
#: The cluster, or the part of it that has to serve the request, is away at the moment.
_OUTAGE = (
    SILENCE
    | BETWEEN_LEADERS
    | {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001  # no leader of any partition is known
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
UNAUTHORISED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
}
#: Waiting does not help against these: the job file or the broker has to be changed.
_REFUSED = {
    KafkaError._SSL: "TLS handshake failed",  # noqa: SLF001
    KafkaError._AUTHENTICATION: "authentication failed",  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED: "authentication failed",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "authentication failed",
}


#: What librdkafka says of such handshakes and logins that lost their connection.
_CUT_OFF = re.compile(r"failed: Local: |unexpected eof|connection reset|broken pipe", re.IGNORECASE)


#: What happens to the other records after the failure of one: none of these is the cause.
_CONSEQUENCES = frozenset(
    {
        KafkaError._FATAL,  # noqa: SLF001
        KafkaError._GAPLESS_GUARANTEE,  # noqa: SLF001
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._PURGE_QUEUE,  # noqa: SLF001
        KafkaError._STATE,  # noqa: SLF001
    }
)


def error_of(cause: KafkaException | KafkaError) -> KafkaError:
    """The KafkaError inside a KafkaException: its only argument."""
    result = cause.args[0] if isinstance(cause, KafkaException) else cause
    return result if isinstance(result, KafkaError) else KafkaError(KafkaError._FAIL, str(result))  # noqa: SLF001


def one_line(error: KafkaError) -> str:
    """Librdkafka's text, on one line."""
    return " ".join(str(error.str()).split())


def is_final(error: KafkaError) -> bool:
    """Whether a record with this error is refused, and would be again."""
    return error.code() in REFUSED or error.code() in UNAUTHORISED or error.code() in UNKNOWN_TOPIC


def remoteness(error: KafkaError) -> int:
    """How far the error of a record is from the cause: 0 for a final refusal, 2 for what follows from other
    failures."""
    return 0 if is_final(error) else 2 if error.code() in _CONSEQUENCES else 1


def is_refused(error: KafkaError) -> bool:
    """Whether the cluster was reached but refuses the client: TLS or authentication."""
    return error.code() in _REFUSED and not _is_cut_off(error)


def _is_cut_off(error: KafkaError) -> bool:
    """Whether the broker went away during a handshake or a login: librdkafka reports that as a refusal, too."""
    return _CUT_OFF.search(str(error.str())) is not None


def is_outage(error: KafkaError) -> bool:
    """Whether the cluster, or the part of it that has to serve the request, is away at the moment."""
    return error.code() in _OUTAGE or (error.code() in _REFUSED and _is_cut_off(error))


def general_error(error: KafkaError, system: str, where: str, operation: str = "", who: str = "") -> SamzapyError:
    """The error for a failure outside of transactional calls; `where` is a topic, an SSP or an address. `operation`:
    the ACL that the call needs there; `who`: the principal of the client."""
    code = error.code()
    if is_refused(error):
        return HandshakeFailed(f"{where}: {_REFUSED[code]}: {one_line(error)}")
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        needed = f"{who or 'this client'} needs the ACLs WRITE and DESCRIBE on this TransactionalId"
        return TransactionsRefused(f"{where}: not authorised: TransactionalId ({one_line(error)}): {needed}")
    if code in UNAUTHORISED:
        kind = UNAUTHORISED[code]
        needed = f": {who or 'this client'} needs the ACL {operation} on this {kind}" if operation else ""
        return NotAuthorised(f"{where}: not authorised: {kind} ({one_line(error)}){needed}")
    if code in UNKNOWN_TOPIC:
        return UnknownStream(system, where.removeprefix(f"{system}.").partition("[")[0])
    if code in _OUTAGE or code in _REFUSED or error.retriable():
        return RetriableError(f"{where}: {one_line(error)}", outage=is_outage(error))
    return EnvironmentFailure(f"{where}: {one_line(error)}")


def delivery_error(
    error: KafkaError, system: str, where: str, size: int, limit: int | None = None, who: str = ""
) -> SamzapyError:
    """The error for a record that was not acknowledged; `who`: the principal of the producer."""
    code = error.code()
    if code == KafkaError.INVALID_TIMESTAMP:
        allowed = "message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic say which it takes"
        return RecordRefused(f"{where}: the broker refuses a record for its timestamp: {allowed} ({one_line(error)})")
    if code == KafkaError.INVALID_RECORD:  # also for a timestamp in a batch of several records
        allowed = "in a compacted topic each needs a key, and message.timestamp.*.max.ms bound its timestamp"
        return RecordRefused(f"{where}: the broker refuses a record; {allowed} ({one_line(error)})")
    if code in TOO_LARGE:
        # The client refuses records above its own limit. This refusal is the broker's, and it measures whole batches.
        below = "its max.message.bytes" + (f" {limit:,}" if limit else "")
        advice = f", alone or in its batch; systems.{system}.producer.batch.size must be below {below}"
        return RecordTooLarge(where, size, limit if limit and size > limit else None, advice)
    if code in _FENCED:
        return ProducerFenced(f"{where}: the producer was fenced: {one_line(error)}")
    if code in UNKNOWN_TOPIC or code in UNAUTHORISED:
        return general_error(error, system, where, "WRITE", who)
    text = f"{where}: record of {size:,} B was not acknowledged: {one_line(error)}"
    return ProducerError(text, outage=is_outage(error))


def transaction_error(error: KafkaError, call: str, who: str = "") -> SamzapyError:
    """The error for a failed transactional call. Its class says how to react: let go, abort and rewind, or outcome
    unknown. `who`: the principal of the producer."""
    code = error.code()
    text = f"{call}: {one_line(error)}"
    if is_refused(error) or code in UNAUTHORISED:
        return general_error(error, "", call, "WRITE", who)
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return EnvironmentFailure(f"{text}: more than the broker's transaction.max.timeout.ms (900000 unless changed)")
    if code in _FENCED or error.fatal() or code == KafkaError._FATAL:  # noqa: SLF001
        return ProducerFenced(text)
    if error.txn_requires_abort():
        return TransactionAborted(text, outage=is_outage(error))
    if code == KafkaError._STATE:  # noqa: SLF001
        return ProducerError(text)
    return TransactionIndeterminate(text, outage=is_outage(error))
