"""A consumer of assigned partitions.

A position is of a topic's id, and has a leader epoch if that is known:

1. librdkafka fetches by topic ids. If a topic is created again, the broker refuses the old id, and librdkafka asks for
   the new one, says so in a log line, and goes on at the old position. So each poll checks for such lines before it
   returns records.
2. If a position has an epoch, librdkafka compares it with the log before it fetches, and when the leader changes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import RecordBatch, SystemConsumer
from samzapy.errors import (
    DELETED_RECORDS,
    LOST_RECORDS,
    EnvironmentFailure,
    OffsetOutOfRange,
    PositionVoid,
    RetriableError,
    SamzapyError,
    UnknownStream,
)
from samzapy.system.kafka.client import Connection, DeletedTopics
from samzapy.system.kafka.errors import UNKNOWN_PARTITION, error_of
from samzapy.system.kafka.fetching import Event, Fetch, open_consumer

_WATERMARKS_S = 5.0
_ATTEMPTS, _ATTEMPT_S = 500, 0.01
#: librdkafka's text about a log that has lost the records before a position.
_TRUNCATED = re.compile(
    r"truncation detected at offset (-?\d+) \(leader epoch (-?\d+)\): broker end offset is (-?\d+) "
    r"\(offset leader epoch (-?\d+)\)"
)


class KafkaConsumer(SystemConsumer):
    """A consumer without a group's rebalances: `assign` only.

    While a broker is away, librdkafka waits for it, and polls return nothing.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client: Any = None
        self._fetch: Fetch | None = None
        self._positions: dict[SystemStreamPartition, int] = {}
        self._epochs: dict[SystemStreamPartition, int] = {}
        #: By topic, the id of the topic that the positions are of.
        self._ids: dict[str, str] = {}
        self._paused: frozenset[SystemStreamPartition] = frozenset()
        self._failure: SamzapyError | None = None
        self._deleted = DeletedTopics()
        self._headers = True

    def skip_headers(self) -> None:
        self._headers = False

    def start(
        self,
        offsets: Mapping[SystemStreamPartition, int],
        ids: Mapping[SystemStream, str] = MappingProxyType({}),
        epochs: Mapping[SystemStreamPartition, int] = MappingProxyType({}),
    ) -> None:
        self._positions, self._epochs = dict(offsets), dict(epochs)
        self._ids = {stream.stream: stream_id for stream, stream_id in ids.items() if stream_id}
        self._client, self._fetch = open_consumer(self._connection, headers=self._headers)
        topics = {ssp.stream for ssp in self._positions}
        ask = partial(self._connection.counts_of, self._client, topics)
        self._connection.partition_counts(self._client, self._positions, ask)
        self._fetch.follow(self._positions)
        self._call(lambda client: client.assign([_at(ssp, offset) for ssp, offset in self._positions.items()]))
        for ssp, epoch in self._epochs.items():
            self._compare(_at(ssp, self._positions[ssp], epoch))

    def _compare(self, position: Any) -> None:
        """Let librdkafka compare a position's epoch with the log before it returns a record. An assignment alone does
        that only if the partition's leader becomes known later. Raises RetriableError."""
        for _ in range(_ATTEMPTS):
            try:
                self._client.seek(position)
            except KafkaException as cause:
                if error_of(cause).code() != KafkaError._STATE:  # noqa: SLF001
                    raise self._connection.general_error(error_of(cause), position.topic) from cause
                # The assignment is not complete.
                threading.Event().wait(_ATTEMPT_S)
            else:
                return
        raise RetriableError(f"{self._connection.system}.{position.topic}: the assignment does not begin")

    def poll(self, timeout_s: float, max_records: int) -> list[RecordBatch]:
        fetch, failure = self._fetch, self._failure
        if fetch is None or failure is not None:
            raise self._why_not()
        try:
            result, events = fetch.take(timeout_s, max_records)
        except KafkaException as cause:
            raise self._connection.general_error(error_of(cause)) from cause
        except RuntimeError as cause:
            if self._fetch is fetch:
                raise
            raise self._why_not() from cause  # closed by another thread
        if self._connection.new_ids:
            self._check_ids()
        positions = self._positions
        for batch in result:
            positions[batch.ssp] = batch.offsets[-1] + 1
        for event in events:
            if event.error.code() in UNKNOWN_PARTITION:
                self._connection.missing = True
            elif failure is None:
                # Raised by the next poll, if there are records to return first.
                self._failure = failure = self._error(event)
        if self._connection.missing and failure is None:
            self._failure = failure = self._deletion()
        if not result:
            if failure is not None:
                raise failure
            self._connection.check()
        return result

    def position(self, ssp: SystemStreamPartition) -> int:
        known = self._positions[ssp]
        if self._client is None:
            return known
        # librdkafka's position also passes records that it never delivers: control records, aborted transactions.
        result: int = self._call(lambda client: client.position([_at(ssp)]))[0].offset
        return max(known, result)

    def epochs(self) -> Mapping[SystemStreamPartition, int]:
        if self._client is not None:
            for at in self._call(lambda client: client.position(list(map(_at, self._positions)))):
                # Without one, nothing was read since the start.
                if at.leader_epoch is not None and at.leader_epoch >= 0:
                    ssp = SystemStreamPartition(self._connection.system, at.topic, at.partition)
                    self._epochs[ssp] = at.leader_epoch
        return dict(self._epochs)

    def pause(self, ssps: Collection[SystemStreamPartition]) -> None:
        before, self._paused = self._paused, frozenset(ssps)
        if added := self._paused - before:
            self._call(lambda client: client.pause(list(map(_at, added))))
        if released := before - self._paused:
            self._call(lambda client: client.resume(list(map(_at, released))))

    def close(self) -> None:
        if self._fetch is not None:
            self._fetch.close()
            self._fetch = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def metrics(self) -> Mapping[str, float]:
        return self._connection.statistics.metrics()

    def _deletion(self) -> SamzapyError | None:
        """The error for a topic that was deleted; None if there is none, or until that is certain."""
        errors, topics = self._connection, {ssp.stream for ssp in self._positions}
        deleted = self._call(lambda client: self._deleted.find(client, topics, one_by_one=True))
        errors.missing = not self._deleted.settled
        return None if deleted is None else UnknownStream(errors.system, deleted, errors.servers)

    def _check_ids(self) -> None:
        """Raise PositionVoid if a topic was created again: what was fetched may be of the new one."""
        result = dict(self._connection.new_ids)
        self._connection.new_ids.clear()
        for topic, now in result.items():
            before = self._ids.setdefault(topic, now)
            if before != now:
                self._failure = PositionVoid.made_anew(f"{self._connection.system}.{topic}", before, now)
                raise self._failure

    def _error(self, event: Event) -> SamzapyError:
        error, ssp = event.error, SystemStreamPartition(self._connection.system, event.stream, event.partition)
        if ssp in self._positions and (lost := _TRUNCATED.search(str(error.str()))) is not None:
            offset, epoch, end, end_epoch = map(int, lost.groups())
            return PositionVoid.diverged(ssp, (offset, epoch), (end, end_epoch))
        if error.code() == KafkaError._AUTO_OFFSET_RESET and ssp in self._positions:  # noqa: SLF001
            low, high = self._call(lambda client: client.get_watermark_offsets(_at(ssp), timeout=_WATERMARKS_S))
            at = self._positions[ssp]
            return OffsetOutOfRange(ssp, at, low, high, LOST_RECORDS if at > high else DELETED_RECORDS)
        return self._connection.general_error(error, str(ssp) if event.stream else "", "READ")

    def _call(self, call: Any) -> Any:
        if self._client is None:
            raise self._why_not()
        try:
            return call(self._client)
        except KafkaException as cause:
            raise self._connection.general_error(error_of(cause)) from cause

    def _why_not(self) -> SamzapyError:
        if self._failure is not None:
            return self._failure
        return EnvironmentFailure(f"the consumer of system '{self._connection.system}' is not started, or closed")


def _at(ssp: SystemStreamPartition, offset: int | None = None, epoch: int | None = None) -> Any:
    if offset is None:
        return TopicPartition(ssp.stream, ssp.partition)
    return TopicPartition(*ssp[1:], offset) if epoch is None else TopicPartition(*ssp[1:], offset, leader_epoch=epoch)


#: The time limit of one commit.
_COMMIT_S = 5.0
_POLL_S = 0.1


class GroupPositions:
    """Commits positions to one consumer group, which has no members. Used by one thread.

    A consumer does it, and no admin client: librdkafka aborts the process when the coordinator of a group goes down
    during an admin call about groups (its issue 3663).
    """

    def __init__(self, group: str, connection: Connection) -> None:
        self._group = group
        self._connection = connection
        self._clock = connection.clock
        self._answered = False
        self._error: KafkaError | None = None
        own: dict[str, Any] = {"group.id": group, "enable.auto.commit": "false", "on_commit": self._answer}
        self._consumer = connection.handle(Consumer, {**connection.properties, **own})

    def commit(self, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Wait at most 5 s until the offsets are committed. Raises EnvironmentFailure where the broker does not allow
        it or the group has members, RetriableError without an answer."""
        self._answered, self._error = False, None
        offsets = [TopicPartition(ssp.stream, ssp.partition, offset) for ssp, offset in positions.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as cause:
            raise self._connection.general_error(error_of(cause), self._where, "READ") from cause
        deadline = self._clock.monotonic() + _COMMIT_S
        while not self._answered:
            if self._clock.monotonic() > deadline:
                silence = f"{self._where}: no answer from {self._connection.servers}"
                raise RetriableError(silence, outage=True)
            self._consumer.poll(_POLL_S)
        if self._error is not None:
            raise self._connection.general_error(self._error, self._where, "READ")

    def close(self) -> None:
        """Disconnect; a commit without an answer is given up."""
        self._consumer.close()

    @property
    def _where(self) -> str:
        return f"group '{self._group}'"

    def _answer(self, error: KafkaError | None, offsets: list[Any]) -> None:
        self._error = error or next((item.error for item in offsets if item.error is not None), None)
        self._answered = True
