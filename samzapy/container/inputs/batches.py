"""Decodes raw records into batches: columns, without an envelope on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samzapy.api.batch import MessageBatch
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.system import RecordBatch
from samzapy.container.inputs.decode import Decoder


class BatchDecoder(Decoder):
    """Decodes the batches of one stream for batch tasks."""

    __slots__ = ()

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        keys, messages, failures = self.columns(batch)
        if failures:
            raise failures[min(failures)]
        return [_batch_of(batch, keys, messages, arrival_ms)]


class TolerantBatchDecoder(Decoder):
    """Cuts a batch at the messages that do not decode, as `TolerantDecoder` does."""

    __slots__ = ()

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        keys, messages, failures = self.columns(batch)
        return self.cut(_batch_of(batch, keys, messages, arrival_ms), failures, batch, arrival_ms)


def _batch_of(
    batch: RecordBatch, keys: Sequence[Any], messages: Sequence[Any], arrival_ms: int
) -> MessageBatch[Any, Any]:
    return MessageBatch(
        batch.ssp,
        batch.offsets,
        keys,
        messages,
        batch.timestamps,
        batch.headers,
        values=batch.values,
        arrival_ms=arrival_ms,
    )
