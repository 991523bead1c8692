"""Raw records to envelopes, a batch at a time.

The good path has no Python frame per record: the serde's function is mapped over a column, and the envelopes are made
from the columns in C. Whatever is not plain (a null, bytes that do not decode) takes the path record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.metrics import Counter
from samzapy.api.serde import Serde
from samzapy.api.system import RecordBatch
from samzapy.errors import SerdeError

_envelope = partial(tuple.__new__, IncomingMessageEnvelope)


class Decoder:
    """Decodes the batches of one stream."""

    __slots__ = ("_drop", "_dropped", "_key", "_value")

    def __init__(self, key: Serde | None, value: Serde | None, *, drop: bool, dropped: Counter) -> None:
        """A serde of None passes bytes through. `drop`: count what does not decode in `dropped` instead of failing."""
        self._key = key
        self._value = value
        self._drop = drop
        self._dropped = dropped

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The batch's envelopes, in order. Raises SerdeError naming stream[partition]@offset and the part."""
        key, value = self._key, self._value
        try:
            keys: Sequence[object] = batch.keys if key is None else list(map(key.from_bytes, batch.keys))  # type: ignore[arg-type]
            values: Sequence[object] = batch.values if value is None else list(map(value.from_bytes, batch.values))  # type: ignore[arg-type]
            sizes = list(map(len, batch.values))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  # nulls and bad bytes: the careful path says which
            return self._decode_one_by_one(batch, arrival_ms)
        columns = zip(
            repeat(batch.ssp),
            batch.offsets,
            keys,
            values,
            repeat(None) if batch.headers is None else batch.headers,
            batch.timestamps,
            repeat(arrival_ms),
            sizes,
        )
        return list(map(_envelope, columns))

    def _decode_one_by_one(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        headers = batch.headers or repeat(None)
        envelopes = []
        for offset, raw_key, raw_value, header, timestamp in zip(
            batch.offsets, batch.keys, batch.values, headers, batch.timestamps, strict=False
        ):
            try:
                key = self._decode(self._key, raw_key, "key", batch, offset)
                message = self._decode(self._value, raw_value, "message", batch, offset)
            except SerdeError:
                if not self._drop:
                    raise
                self._dropped.count += 1
                continue
            size = 0 if raw_value is None else len(raw_value)
            envelopes.append(
                IncomingMessageEnvelope(batch.ssp, offset, key, message, header, timestamp, arrival_ms, size)
            )
        return envelopes

    @staticmethod
    def _decode(serde: Serde | None, data: bytes | None, part: str, batch: RecordBatch, offset: int) -> object:
        if data is None or serde is None:
            return data
        try:
            return serde.from_bytes(data)
        except Exception as cause:
            shown = data[:40].hex() + ("..." if len(data) > 40 else "")
            raise SerdeError(f"{batch.ssp}@{offset}: {part}: {cause} (bytes {shown})") from cause
