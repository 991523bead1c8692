"""Decodes raw records into envelopes, or into the columns of a batch task, a batch at a time.

1. The good path has no Python frame per record: the serde's function is mapped over a column, and the envelopes are
   made from the columns in C. Nulls and bytes that do not decode cost extra time, but not for the records around them.
   A serde of the user never sees a null, so a batch with nulls is decoded record by record.
2. Under an error policy a record that does not decode keeps its place among the others, as a separate run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from typing import Any

from samzapy.api.batch import MessageBatch
from samzapy.api.envelope import IncomingMessageEnvelope, envelopes_of
from samzapy.api.serde import Serde, hinted
from samzapy.api.system import RecordBatch
from samzapy.errors import EnvironmentFailure, FailedCall, SerdeError, Unreachable
from samzapy.plugins import is_own


def decode_column(
    serde: Serde | None, column: Sequence[bytes | None], failures: dict[int, Exception], *, refuses_null: bool = False
) -> Sequence[Any]:
    """The objects of a column of bytes, None where it has a null; the column itself without a serde, or with a serde of
    bytes.

    A record that does not decode gives None, and its exception goes to `failures`, by index. Each record is decoded
    once. Nulls are left out beforehand unless the serde `refuses_null`: the answer of another serde would replace the
    null. Raises EnvironmentFailure for a serde that cannot fetch its requirements: no record is at fault.
    """
    if serde is None or serde.from_bytes is bytes:
        return column
    decode = serde.from_bytes
    found: list[Any] = []
    try:
        if refuses_null or None not in column:
            found.extend(map(decode, column))  # type: ignore[arg-type]  # keeps what came before an exception
    except EnvironmentFailure:
        raise
    except Exception as cause:  # noqa: BLE001  # whatever a serde raises is about this record
        _note(column, found, cause, failures)
    while len(found) < len(column):
        try:
            for data in islice(column, len(found), None):
                found.append(None if data is None else decode(data))  # noqa: PERF401  # to count them
        except EnvironmentFailure:
            raise
        except Exception as cause:  # noqa: BLE001
            _note(column, found, cause, failures)
    return found


def _note(column: Sequence[bytes | None], found: list[Any], cause: Exception, failures: dict[int, Exception]) -> None:
    if column[len(found)] is not None:
        failures[len(found)] = cause
    found.append(None)


class Decoder:
    """Decodes the batches of one stream."""

    def __init__(self, key: Serde | None, value: Serde | None) -> None:
        self._key = key
        self._value = value
        # samzapy's serdes raise for a null.
        self._decode_keys = partial(decode_column, key, refuses_null=is_own(type(key)))
        self._decode_values = partial(decode_column, value, refuses_null=is_own(type(value)))

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        """The batch's envelopes, in order, as runs that are processed one after the other; here always one run."""
        return [self.decode(batch, arrival_ms)]

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The batch's envelopes, in order. Raises SerdeError naming stream[partition]@offset and the part."""
        envelopes, failures = self._envelopes(batch, arrival_ms)
        if failures:
            raise failures[min(failures)]
        return envelopes

    def columns(self, batch: RecordBatch) -> tuple[Sequence[Any], Sequence[Any], dict[int, SerdeError]]:
        """The batch's keys and messages, and by index the errors of records that do not decode: a key's before a
        message's."""
        bad_keys: dict[int, Exception] = {}
        bad_messages: dict[int, Exception] = {}
        try:
            keys = self._decode_keys(batch.keys, bad_keys)
            messages = self._decode_values(batch.values, bad_messages)
        except EnvironmentFailure as cause:
            where = f"{batch.ssp}@{batch.offsets[0]} to {batch.offsets[-1]}"
            kind = Unreachable if isinstance(cause, Unreachable) else EnvironmentFailure
            failure = kind(f"{where}: cannot be decoded now: {cause}")
            if isinstance(cause, Unreachable) and isinstance(failure, Unreachable):
                failure.ask, failure.service = cause.ask, cause.service
            raise failure from cause
        failures = {
            index: _failure(batch, index, "message", batch.values, self._value, bad_messages[index])
            for index in bad_messages
        }
        failures.update(
            (index, _failure(batch, index, "key", batch.keys, self._key, bad_keys[index])) for index in bad_keys
        )
        return keys, messages, failures

    def decode_one(self, batch: RecordBatch, index: int, arrival_ms: int) -> IncomingMessageEnvelope:
        (envelope,) = Decoder.decode(self, batch.part(index, index + 1), arrival_ms)
        return envelope

    @staticmethod
    def undecoded(batch: RecordBatch, index: int, arrival_ms: int) -> IncomingMessageEnvelope:
        """The envelope of one record with its bytes undecoded."""
        key, value = batch.keys[index], batch.values[index]
        headers = None if batch.headers is None else batch.headers[index]
        size = 0 if value is None else len(value)
        return IncomingMessageEnvelope(
            batch.ssp, batch.offsets[index], key, value, headers, batch.timestamps[index], arrival_ms, size
        )

    def cut(
        self,
        whole: Sequence[IncomingMessageEnvelope],
        failures: Mapping[int, SerdeError],
        batch: RecordBatch,
        arrival_ms: int,
    ) -> list[Sequence[IncomingMessageEnvelope]]:
        """The messages between the `failures`, and each failure as a separate run, in order. `whole` has a place for
        every record of `batch`; it is returned itself if nothing failed."""
        runs: list[Sequence[IncomingMessageEnvelope]] = []
        start = 0
        for index in sorted(failures):
            raw = self.undecoded(batch, index, arrival_ms)
            again = partial(self.decode_one, batch, index, arrival_ms)
            runs += [whole[start:index], Undecodable(raw, failures[index], again)]
            start = index + 1
        runs.append(whole[start:] if start else whole)
        return [run for run in runs if run]

    def _envelopes(
        self, batch: RecordBatch, arrival_ms: int
    ) -> tuple[list[IncomingMessageEnvelope], dict[int, SerdeError]]:
        keys, messages, failures = self.columns(batch)
        return _made(batch, keys, messages, arrival_ms), failures


def _made(
    batch: RecordBatch, keys: Sequence[Any], messages: Sequence[Any], arrival_ms: int
) -> list[IncomingMessageEnvelope]:
    """One envelope per record, without a Python frame each."""
    ssp, offsets, _, values, times, headers = batch
    carried = repeat(None) if headers is None else headers
    columns = zip(repeat(ssp), offsets, keys, messages, carried, times, repeat(arrival_ms), _sizes(values))
    return list(envelopes_of(columns))


def _sizes(values: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # a null
        return [0 if value is None else len(value) for value in values]


def _failure(
    batch: RecordBatch,
    index: int,
    part: str,
    column: Sequence[bytes | None],
    serde: Serde | None,
    cause: Exception,
) -> SerdeError:
    data = column[index] or b""
    shown = data[:40].hex() + ("..." if len(data) > 40 else "")
    reason = cause if serde is None else hinted(serde).misfit(cause)
    error = SerdeError(f"{batch.ssp}@{batch.offsets[index]}: {part}: {reason} (bytes {shown})")
    error.__cause__ = cause
    position = batch.offsets[index]
    error.call = FailedCall("", f"decoding of {batch.ssp}@{position}", (str(batch.ssp), position, position))
    return error


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
    """Cuts a batch at the messages that do not decode, so that the policy is applied to them in order, and a commit has
    both the outcome and their offsets."""

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        envelopes, failures = self._envelopes(batch, arrival_ms)
        return self.cut(envelopes, failures, batch, arrival_ms)

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The messages that decode alone, for readers that pass over the others; none if there are none."""
        envelopes, failures = self._envelopes(batch, arrival_ms)
        return [each for index, each in enumerate(envelopes) if index not in failures] if failures else envelopes


class BatchDecoder(Decoder):
    """Decodes the batches of one stream for batch tasks."""

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        keys, messages, failures = self.columns(batch)
        if failures:
            raise failures[min(failures)]
        return [_batch_of(batch, keys, messages, arrival_ms, self._value)]


class TolerantBatchDecoder(Decoder):
    """Cuts a batch at the messages that do not decode, as `TolerantDecoder` does."""

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        keys, messages, failures = self.columns(batch)
        return self.cut(_batch_of(batch, keys, messages, arrival_ms, self._value), failures, batch, arrival_ms)


def _batch_of(
    batch: RecordBatch, keys: Sequence[Any], messages: Sequence[Any], arrival_ms: int, serde: Serde | None
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
        message_type=None if serde is None else serde.object_type,
    )
