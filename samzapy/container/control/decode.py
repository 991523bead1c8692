"""Control messages in their place among the messages."""

from __future__ import annotations

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.system import RecordBatch
from samzapy.container.control.record import SentControl, decode, is_control
from samzapy.container.inputs.decode import Decoder


class ControlRun(list[IncomingMessageEnvelope]):
    """A run of one control message, whose envelope has the bytes that came."""

    __slots__ = ("control",)

    def __init__(self, raw: IncomingMessageEnvelope, control: SentControl) -> None:
        super().__init__([raw])
        self.control = control


class ControlDecoder(Decoder):
    """Decodes the batches of one intermediate stream: cuts them at control messages and leaves the rest to `messages`."""

    __slots__ = ("_messages",)

    def __init__(self, messages: Decoder) -> None:
        super().__init__(None, None)
        self._messages = messages

    def runs(self, batch: RecordBatch, arrival_ms: int) -> list[list[IncomingMessageEnvelope]]:
        if batch.headers is None:
            return self._messages.runs(batch, arrival_ms)
        found: list[list[IncomingMessageEnvelope]] = []
        start = 0
        for index, headers in enumerate(batch.headers):
            if headers and is_control(headers):
                found += self._between(batch, start, index, arrival_ms)
                raw = self.undecoded(batch, index, arrival_ms)
                found.append(ControlRun(raw, decode(raw.message, headers, raw.position)))
                start = index + 1
        return found + self._between(batch, start, len(batch.offsets), arrival_ms)

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The messages alone, for who has nothing to do with control messages; none if there are none."""
        runs = self.runs(batch, arrival_ms)
        return [envelope for run in runs if not isinstance(run, ControlRun) for envelope in run]

    def _between(
        self, batch: RecordBatch, start: int, stop: int, arrival_ms: int
    ) -> list[list[IncomingMessageEnvelope]]:
        if start == stop:
            return []
        return self._messages.runs(batch.part(start, stop), arrival_ms)
