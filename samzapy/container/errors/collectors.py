"""Collectors under error policies: for outputs that cannot be sent, and for taking back the outputs of a failed
message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from samzapy.api.collector import MessageCollector, columns_of
from samzapy.api.envelope import Headers, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemProducer
from samzapy.config.tasks.error_policy import Stage
from samzapy.container.errors.recovery import Recovery
from samzapy.container.event_time.control_messages import ControlRecords
from samzapy.container.outputs.collector import BufferingCollector, Mark, Outbox, SerdesOf, no_envelope
from samzapy.container.outputs.producers import RecordLimit
from samzapy.errors import SerdeError


class TolerantCollector(BufferingCollector):
    """Asks the policy about outputs that do not serialize.

    A policy applies to one input. In a run of several inputs an output that fails raises, and sets `undecided`: the run
    is then undone and processed in smaller ones, whether the task lets the error through or not.
    """

    __slots__ = ("_again", "_several", "_undecided", "recovery")

    def __init__(
        self,
        serdes_of: SerdesOf,
        producer_of: Callable[[str], SystemProducer],
        control: ControlRecords,
        outbox: Outbox,
        recovery: Recovery,
    ) -> None:
        super().__init__(serdes_of, producer_of, control, outbox)
        self.recovery = recovery
        self._again = self._several = self._undecided = False

    @property
    def undecided(self) -> bool:
        return self._undecided

    def begin_run(self, *, several: bool) -> None:
        """The outputs from here on come from a run of several messages, or from one message."""
        self._several = several
        self._undecided = False

    def back_to(self, mark: Mark) -> None:
        """Drop the records sent since `mark`."""
        super().back_to(mark)
        self.recovery.taken_back()

    def _refuse(self, envelope: OutgoingMessageEnvelope, cause: Exception) -> None:
        if self._again or self._several:
            self._undecided = self._several
            super()._refuse(envelope, cause)
        error = SerdeError(f"{envelope.system_stream}: cannot serialize {envelope!r}: {cause}")
        error.__cause__ = cause
        failure = self.recovery.recover(Stage.SERIALIZE, error, lambda: self._send_again(envelope))
        if failure is not None:
            raise failure

    def _send_again(self, envelope: OutgoingMessageEnvelope) -> Exception | None:
        self._again = True
        try:
            BufferingCollector.send(self, envelope)
        except SerdeError as failure:
            return failure
        finally:
            self._again = False
        return None


class CheckingCollector(TolerantCollector):
    """Asks the policy about outputs that their stream would refuse, before a producer sees them and is poisoned: too
    large, without a key for a compacted stream, or with a time stamp too far from now.

    A record's size is the size of its key, value and headers; the overhead of a system's own format is not counted. The
    limit of a stream that does not exist yet is asked for again after each hand-over, since the records may have
    created it.
    """

    __slots__ = ("_limit_of", "_limits", "_some_open", "_wall_ms")

    def __init__(
        self,
        serdes_of: SerdesOf,
        producer_of: Callable[[str], SystemProducer],
        control: ControlRecords,
        outbox: Outbox,
        recovery: Recovery,
        limit_of: Callable[[SystemStream], RecordLimit],
        wall_ms: Callable[[], int],
    ) -> None:
        """`limit_of` gives what a stream takes; called once for a stream that exists. `wall_ms`: the time now."""
        super().__init__(serdes_of, producer_of, control, outbox, recovery)
        self._wall_ms = wall_ms
        self._limit_of = limit_of
        self._limits: dict[SystemStream, RecordLimit] = {}
        self._some_open = False

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        stream = envelope.system_stream
        records = self._records_of(stream)
        before = len(records)
        super().send(envelope)
        if len(records) == before or records[-1].stream != stream.stream:
            return  # it did not serialize
        refusal = self._limit(stream).refusal(stream, records[-1], self._wall_ms)  # type: ignore[arg-type]
        if refusal is not None:
            records.pop()
            if self._several:
                self._undecided = True
                raise refusal
            failure = self.recovery.recover(Stage.PRODUCE, refusal)
            if failure is not None:
                raise failure

    def hand_over(self) -> None:
        super().hand_over()
        if self._some_open:
            self._limits = {stream: limit for stream, limit in self._limits.items() if limit.final}
            self._some_open = False

    def _limit(self, stream: SystemStream) -> RecordLimit:
        known = self._limits.get(stream)
        if known is None:
            known = self._limits[stream] = self._limit_of(stream)
            self._some_open |= not known.final
        return known

    def send_message(self, stream: SystemStream, message: Any, key: Any = None) -> None:
        MessageCollector.send_message(self, stream, message, key)

    def send_batch(
        self,
        stream: SystemStream,
        keys: Sequence[Any] | None,
        messages: Sequence[Any],
        *,
        partition_keys: Sequence[Any] | None = None,
        timestamps: Sequence[int | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        inputs: Sequence[int] | None = None,
    ) -> None:
        self._send_one_by_one(stream, columns_of(keys, messages, partition_keys, headers, timestamps, inputs))
