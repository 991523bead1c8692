"""Writes records, every one acknowledged, in transactions or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from samzapy.api.system import ColumnProducer, OutgoingColumns
from samzapy.errors import (
    ProducerError,
    ProducerFenced,
    SamzapyError,
    TransactionAborted,
    TransactionIndeterminate,
    UnknownStream,
)
from samzapy.system.base import ProducerCalls
from samzapy.system.kafka.client import LOGGER, Connection, DeletedTopics
from samzapy.system.kafka.errors import (
    REFUSED,
    TOO_LARGE,
    UNAUTHORISED,
    delivery_error,
    error_of,
    is_final,
    remoteness,
    transaction_error,
)
from samzapy.system.kafka.queue import Failure, RecordQueue, open_producer

#: The call that delivers a fatal error raises it and delivers no reports: the next calls do.
_REPORT_CALLS, _REPORT_S = 20, 0.05
#: Seconds of a step of a flush. A fatal error is raised when it returns; no record acknowledged in one is a stall.
_STEP_S = 0.1
#: The most seconds for which a stalled flush keeps its records back, and those in which it then tries again.
_PAUSE_S, _TRIAL_S = 1.0, 0.02


class KafkaProducer(ColumnProducer):
    """An idempotent producer.

    An error poisons it. Inside a transaction `abort` heals it, with two exceptions: it was fenced, or the broker has
    refused a record. A refused record leaves a gap in librdkafka's sequence numbers, and the next transaction would
    fail at it, so the aborted producer begins no other.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str | None,
        call_s: float = 30.0,
        limit_of: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        """`call_s`: the most seconds that a transactional call may take; after that its outcome is unknown. `limit_of`:
        the `max.message.bytes` of a topic, None if unknown; called for the error of a record that the broker
        refuses."""
        self._connection = connection
        self._clock = connection.clock
        self._call_s = call_s
        self._limit_of = limit_of
        self._made: tuple[Any, RecordQueue] | None = None
        self._last_offsets: dict[tuple[str, int], int] = {}
        self._calls = ProducerCalls(connection.system, transactional_id)
        self._refused = False
        self._deleted = DeletedTopics(connection.clock)

    def send_columns(self, columns: OutgoingColumns) -> None:
        with self._calls:
            self._calls.must_take_records()
            self._abortable(self._queue.send, columns)

    def flush(self, timeout_s: float = 60.0) -> Mapping[tuple[str, int], int]:
        with self._calls:
            self._abortable(self._flush, timeout_s)
        return self._last_offsets

    def purge(self) -> None:
        if self._made is not None:
            self._made[0].purge()

    def close(self) -> None:
        if not self._calls.closed:
            self._calls.closed = True
            self.purge()
            self._made = None

    def metrics(self) -> Mapping[str, float]:
        return self._connection.statistics.metrics()

    def init_transactions(self) -> None:
        with self._calls:
            self._calls.must_be_new("init_transactions")
            self._connection.reach(self._client)
            self._connection.gate.ask(self._take_over)
            self._calls.initialised = True

    def begin(self) -> bool:
        with self._calls:
            self._calls.must_be_between_transactions()
            took_over = self._renew_if_disturbed()
            self._call("begin", lambda client: client.begin_transaction())
            self._calls.in_transaction = True
        return took_over

    def commit(self) -> None:
        with self._calls:
            self._calls.must_be_in_transaction("commit")
            self._abortable(self._flush, self._call_s)
            self._abortable(self._call, "commit", lambda client: client.commit_transaction(self._call_s))
            self._calls.in_transaction = False

    def abort(self) -> None:
        self._calls.heal()
        with self._calls:
            self._calls.must_be_in_transaction("abort")
            # This also discards queued records.
            self._call("abort", lambda client: client.abort_transaction(self._call_s))
            self._queue.clear()
            self._calls.in_transaction = False
        if self._refused:
            text = f"{self._calls.name}: the broker has refused a record of it; to go on, make a new producer"
            self._calls.error = TransactionIndeterminate(text)

    def _take_over(self) -> None:
        """Get a new epoch for the transactional id: from now on the broker refuses requests of earlier ones."""
        self._connection.disturbed = False
        self._call("init_transactions", lambda client: client.init_transactions(self._call_s))

    def _renew_if_disturbed(self) -> bool:
        """Take over from this producer itself if librdkafka may have sent a request twice since the last take-over;
        returns whether it has.

        librdkafka repeats a request if the connection is lost or the answer is late. The first copy may still arrive:
        the end of the last transaction would then end the next one, half done. librdkafka reports a repeated failure of
        a connection once in 30 s, so every report since the last take-over counts, not only reports during the commit.
        """
        self._serve(0)
        if took_over := self._connection.disturbed:
            LOGGER.info("%s takes over from itself after a lost connection or a late answer", self._calls.name)
            self._made = None
            self._take_over()
        return took_over

    @property
    def _client(self) -> Any:
        return self._opened()[0]

    @property
    def _queue(self) -> RecordQueue:
        return self._opened()[1]

    def _opened(self) -> tuple[Any, RecordQueue]:
        if self._made is None:
            with_offsets = not self._calls.transactional
            self._made = open_producer(self._connection, self._serve, with_offsets=with_offsets)
        return self._made

    def _abortable(self, call: Callable[..., object], *arguments: Any) -> None:
        """Inside a transaction, an abort heals every error without another reaction. Outside of one, a fatal error may
        announce a refused record: the record's error is raised instead, since it says more."""
        try:
            call(*arguments)
        except ProducerFenced as error:
            refused = None if self._calls.transactional else self._refusal()
            if refused is None:
                raise
            raise refused from error
        except ProducerError as error:
            if self._calls.in_transaction and type(error) is ProducerError:
                # After a refused record every call fails, with an error that only says so.
                cause = self._cause_of(error)
                raise (self._refusal() or cause if type(cause) is TransactionAborted else cause) from error
            raise

    def _flush(self, timeout_s: float) -> None:
        left, pause_s, failure = 0, 0.0, None
        deadline = self._clock.monotonic() + timeout_s
        # After a final refusal in a transaction the client keeps the other records: nothing is left to wait for.
        while failure is None or not is_final(failure.error):
            left_s = max(0.0, deadline - self._clock.monotonic())
            before, left = left, self._flush_some(pause_s, left_s)
            failure = min(self._queue.failures(), key=lambda item: remoteness(item.error), default=None)
            if not left or not left_s:
                break
            pause_s = min(_PAUSE_S, 2 * pause_s or _STEP_S) if left == before else 0.0
            if pause_s == _PAUSE_S:
                self._check_deleted()
        if failure is not None:
            raise self._undelivered(failure)
        self._connection.check()
        if left:
            where = f"after {timeout_s:.0f} s on {self._connection.servers}"
            raise self._timed_out(f"{self._calls.name}: {left:,} records were not acknowledged {where}")
        self._last_offsets.update(self._queue.settle())
        self._queue.streams.clear()

    def _flush_some(self, pause_s: float, left_s: float) -> int:
        """One step of a flush with `left_s` to go. Returns how many records are not acknowledged.

        While a partition's batch has no answer, librdkafka's thread spins until it may send the next one (its issues
        2565 and 3692), which takes as long as a broker is frozen. So a flush that stalls keeps its records back for
        `pause_s`, and tries again.
        """
        if not pause_s:
            return int(self._call("flush", lambda client: client.flush(min(_STEP_S, left_s))))
        self._queue.pause(on=True)
        try:
            self._call("flush", lambda client: client.flush(min(pause_s, left_s)))
        finally:
            self._queue.pause(on=False)
        return int(self._call("flush", lambda client: client.flush(_TRIAL_S)))

    def _check_deleted(self) -> None:
        """Raise UnknownStream if a topic of the records was deleted: librdkafka would keep them until they time out."""
        deleted = self._deleted.find(self._client, self._queue.streams, one_by_one=False)
        if deleted is not None:
            raise UnknownStream(self._connection.system, deleted, self._connection.servers)

    def _timed_out(self, text: str) -> SamzapyError:
        reaction = TransactionAborted if self._calls.in_transaction else ProducerError
        return reaction(text, outage=True)

    def _undelivered(self, failure: Failure) -> SamzapyError:
        error, stream, partition, size = failure
        self._refused = error.code() in REFUSED
        system, who = self._connection.system, self._connection.who
        limit = self._limit_of(stream) if error.code() in TOO_LARGE else None
        result = delivery_error(error, system, f"{system}.{stream}[{partition}]", size, limit, who)
        return self._cause_of(result) if self._calls.in_transaction and not is_final(error) else result

    def _refusal(self) -> SamzapyError | None:
        """The error of a record that the broker has refused, or that the client may not write; None if there is none.
        After its fatal error the client reports on all records at once."""
        for _ in self._served():
            failure = next((item for item in self._queue.failures() if is_final(item.error)), None)
            if failure is not None:
                return self._undelivered(failure)
        return None

    def _served(self) -> Iterator[None]:
        """Let librdkafka deliver what it has to tell after a failure, between the turns of a loop of a second at
        most."""
        for _ in range(_REPORT_CALLS):
            yield
            with suppress(KafkaException, SystemError):
                self._client.poll(_REPORT_S)

    def _cause_of(self, result: SamzapyError) -> SamzapyError:
        """The error for a failed record in an open transaction. After a fence, or where the client may not write,
        records fail with many different errors, and calls as made out of order."""
        try:
            # Inside a transaction this always fails and changes nothing. The error is the one that the transaction has
            # failed with.
            self._client.begin_transaction()
        except KafkaException as cause:
            error = error_of(cause)
            if error.fatal() or error.code() in UNAUTHORISED:
                return self._transaction_error(error, "flush")
        if type(result) is ProducerError:
            return TransactionAborted(str(result), outage=result.outage)
        return result

    def _transaction_error(self, error: KafkaError, call: str) -> SamzapyError:
        """The error for a failed call; names the partition that the client may not write to."""
        errors = self._connection
        where = f"{call} of {self._calls.name}"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            for _ in self._served():
                if errors.refused_partition:
                    where = f"{errors.system}.{errors.refused_partition}"
                    break
        return transaction_error(error, where, errors.who)

    def _serve(self, timeout_s: float) -> None:
        """Let librdkafka deliver its reports."""
        self._call("send", lambda client: client.poll(timeout_s))

    def _call(self, name: str, call: Callable[[Any], Any]) -> Any:
        try:
            return call(self._client)
        except KafkaException as cause:
            raise self._transaction_error(error_of(cause), name) from cause
        except SystemError as crash:
            # A call that delivers reports raises a fatal error; a report behind it in the same call makes it a
            # SystemError.
            pending = crash.__cause__
            if isinstance(pending, KafkaException):
                raise self._transaction_error(error_of(pending), name) from pending
            raise
