"""Decodes raw records into envelopes, a batch at a time.

1. The good path has no Python frame per record: the serde's function is mapped over a column, and the envelopes are made
   from the columns in C. A batch with a null or with bytes that do not decode takes the path record by record.
2. Under an error policy a record that does not decode keeps its place among those that do, as a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.serde import Serde
from samzapy.api.system import RecordBatch
from samzapy.errors import SerdeError

_envelope = partial(tuple.__new__, IncomingMessageEnvelope)


class Decoder:
    """Decodes the batches of one stream."""

    __slots__ = ("_key", "_value")

    def __init__(self, key: Serde | None, value: Serde | None) -> None:
        """A serde of None passes bytes through."""
        self._key = key
        self._value = value

    def runs(self, batch: RecordBatch, arrival_ms: int) -> list[list[IncomingMessageEnvelope]]:
        """The batch's envelopes, in order, as runs that are processed one after the other; here always one run."""
        return [self.decode(batch, arrival_ms)]

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The batch's envelopes, in order. Raises SerdeError naming stream[partition]@offset and the part."""
        key, value = self._key, self._value
        try:
            keys: Sequence[object] = batch.keys if key is None else list(map(key.from_bytes, batch.keys))  # type: ignore[arg-type]
            values: Sequence[object] = batch.values if value is None else list(map(value.from_bytes, batch.values))  # type: ignore[arg-type]
            sizes = list(map(len, batch.values))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  # nulls and bad bytes: the careful path says which
            return [self.decode_one(batch, index, arrival_ms) for index in range(len(batch.offsets))]
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

    def decode_one(self, batch: RecordBatch, index: int, arrival_ms: int) -> IncomingMessageEnvelope:
        """The envelope of one record. Raises as `decode` does."""
        raw = self.undecoded(batch, index, arrival_ms)
        key = self._decode(self._key, batch.keys[index], "key", batch, raw.offset)
        message = self._decode(self._value, batch.values[index], "message", batch, raw.offset)
        return raw._replace(key=key, message=message)

    @staticmethod
    def undecoded(batch: RecordBatch, index: int, arrival_ms: int) -> IncomingMessageEnvelope:
        """The envelope of one record with its bytes undecoded."""
        key, value = batch.keys[index], batch.values[index]
        headers = None if batch.headers is None else batch.headers[index]
        size = 0 if value is None else len(value)
        return IncomingMessageEnvelope(
            batch.ssp, batch.offsets[index], key, value, headers, batch.timestamps[index], arrival_ms, size
        )

    @staticmethod
    def _decode(serde: Serde | None, data: bytes | None, part: str, batch: RecordBatch, offset: int) -> object:
        if data is None or serde is None:
            return data
        try:
            return serde.from_bytes(data)
        except Exception as cause:
            shown = data[:40].hex() + ("..." if len(data) > 40 else "")
            raise SerdeError(f"{batch.ssp}@{offset}: {part}: {cause} (bytes {shown})") from cause


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
