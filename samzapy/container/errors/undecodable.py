"""Inputs that do not decode, kept in their place among those that do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.system import RecordBatch
from samzapy.container.inputs.decode import Decoder
from samzapy.errors import SerdeError


class Undecodable(list[IncomingMessageEnvelope]):
    """A run of one message with its undecoded bytes as key and message; `decode` tries again."""

    __slots__ = ("decode", "failure")

    def __init__(
        self, raw: IncomingMessageEnvelope, failure: SerdeError, decode: Callable[[], IncomingMessageEnvelope]
    ) -> None:
        super().__init__([raw])
        self.failure = failure
        self.decode = decode


class TolerantDecoder(Decoder):
    """Cuts a batch at the messages that do not decode, so that the policy deals with them in their turn, and a commit has
    both the outcome and their offsets."""

    __slots__ = ()

    def runs(self, batch: RecordBatch, arrival_ms: int) -> list[list[IncomingMessageEnvelope]]:
        try:
            return [self.decode(batch, arrival_ms)]
        except SerdeError:
            return self._cut(batch, arrival_ms)

    def _cut(self, batch: RecordBatch, arrival_ms: int) -> list[list[IncomingMessageEnvelope]]:
        runs: list[list[IncomingMessageEnvelope]] = []
        good: list[IncomingMessageEnvelope] = []
        for index in range(len(batch.offsets)):
            try:
                good.append(self.decode_one(batch, index, arrival_ms))
            except SerdeError as failure:
                raw = self.undecoded(batch, index, arrival_ms)
                again = partial(self.decode_one, batch, index, arrival_ms)
                runs += [good, Undecodable(raw, failure, again)]
                good = []
        return [run for run in (*runs, good) if run]
