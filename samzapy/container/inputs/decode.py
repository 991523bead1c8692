"""Decodes raw records into envelopes, or into the columns of a batch task, a batch at a time.

1. The good path has no Python frame per record: the serde's function is mapped over a column, and the envelopes are
   made from the columns in C. Nulls and bytes that do not decode cost extra time, but not for the records around them.
   A serde of the user never sees a null, so a batch with nulls is decoded record by record.
2. Under an error policy a record that does not decode keeps its place among the others, as a separate run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.serde import Serde, hinted
from samzapy.api.system import RecordBatch
from samzapy.errors import EnvironmentFailure, FailedCall, SerdeError, Unreachable
from samzapy.plugins import is_own


def decode_column(
    serde: Serde | None, column: Sequence[bytes | None], failures: dict[int, Exception], *, refuses_null: bool = False
) -> Sequence[Any]:
    """The objects of a column of bytes, None where it has a null; the column itself without a serde, or with a serde of
    bytes.

    A record that does not decode gives None, and its exception goes to `failures`, by index. Nulls are left out
    beforehand unless the serde `refuses_null`: the answer of another serde would replace the null. Raises
    EnvironmentFailure for a serde that cannot fetch its requirements: no record is at fault.
    """
    if serde is None or serde.from_bytes is bytes:
        return column
    decode = serde.from_bytes
    decoded: list[Any] = []
    if refuses_null or None not in column:
        with suppress(Exception):  # it comes again below, with its record
            decoded.extend(map(decode, column))  # type: ignore[arg-type]  # keeps what came before an exception
    for index in range(len(decoded), len(column)):
        data = column[index]
        try:
            decoded.append(None if data is None else decode(data))
        except EnvironmentFailure:
            raise
        except Exception as cause:  # noqa: BLE001  # whatever a serde raises is about this record
            failures[index] = cause
            decoded.append(None)
    return decoded


class Undecodable(list[IncomingMessageEnvelope]):
    """A run of one message that does not decode, with its bytes as key and message."""

    __slots__ = ("failure",)

    def __init__(self, raw: IncomingMessageEnvelope, failure: SerdeError) -> None:
        super().__init__([raw])
        self.failure = failure


class Decoder:
    """Decodes the batches of one stream."""

    def __init__(
        self, key: Serde | None, value: Serde | None, *, tolerant: bool = False, columns: bool = False
    ) -> None:
        """`tolerant`: cut a batch at the messages that do not decode, so that the policy is applied to them in order,
        and a commit has both the outcome and their offsets. `columns`: for batch tasks, a run is a MessageBatch."""
        self._key = key
        self._value = value
        self._tolerant = tolerant
        self._columns = columns
        # samzapy's serdes raise for a null.
        self._decode_keys = partial(decode_column, key, refuses_null=is_own(type(key)))
        self._decode_values = partial(decode_column, value, refuses_null=is_own(type(value)))

    def runs(self, batch: RecordBatch, arrival_ms: int) -> Sequence[Sequence[IncomingMessageEnvelope]]:
        """The batch's messages, in order, as runs that are processed one after the other."""
        decoded, failures = self._decoded(batch, arrival_ms)
        whole = decoded if self._columns else list(decoded)
        if not failures:
            return [whole]
        runs: list[Sequence[IncomingMessageEnvelope]] = []
        start = 0
        for index in sorted(failures):
            runs += [whole[start:index], Undecodable(undecoded(batch, index, arrival_ms), failures[index])]
            start = index + 1
        runs.append(whole[start:])
        return [run for run in runs if run]

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The batch's messages, in order; of a tolerant decoder without those that do not decode."""
        decoded, failures = self._decoded(batch, arrival_ms)
        if not failures:
            return list(decoded)
        return [envelope for index, envelope in enumerate(decoded) if index not in failures]

    def _decoded(self, batch: RecordBatch, arrival_ms: int) -> tuple[MessageBatch[Any, Any], Mapping[int, SerdeError]]:
        """The messages, and by index the errors of those that do not decode, the key's before the message's. Raises the
        first of them, which names stream[partition]@offset and the part, unless the decoder is tolerant."""
        bad_keys: dict[int, Exception] = {}
        bad_values: dict[int, Exception] = {}
        try:
            keys = self._decode_keys(batch.keys, bad_keys)
            messages = self._decode_values(batch.values, bad_values)
        except EnvironmentFailure as cause:
            raise _environment_failure(batch, cause) from cause
        decoded: MessageBatch[Any, Any] = MessageBatch(
            batch.ssp,
            batch.offsets,
            keys,
            messages,
            batch.timestamps,
            batch.headers,
            values=batch.values,
            arrival_ms=arrival_ms,
            message_type=None if self._value is None else self._value.object_type,
        )
        if not bad_keys and not bad_values:
            return decoded, {}
        failures = {index: _failure(batch, index, "message", self._value, bad_values[index]) for index in bad_values}
        failures |= {index: _failure(batch, index, "key", self._key, bad_keys[index]) for index in bad_keys}
        if not self._tolerant:
            raise failures[min(failures)]
        return decoded, failures


def undecoded(batch: RecordBatch, index: int, arrival_ms: int) -> IncomingMessageEnvelope:
    """The envelope of one record with its bytes undecoded."""
    key, value = batch.keys[index], batch.values[index]
    headers = None if batch.headers is None else batch.headers[index]
    size = 0 if value is None else len(value)
    return IncomingMessageEnvelope(
        batch.ssp,
        batch.offsets[index],
        key,
        value,
        headers=headers,
        event_time=batch.timestamps[index],
        arrival_time=arrival_ms,
        size=size,
    )


def _environment_failure(batch: RecordBatch, cause: EnvironmentFailure) -> EnvironmentFailure:
    text = f"{batch.ssp}@{batch.offsets[0]} to {batch.offsets[-1]}: cannot be decoded now: {cause}"
    if not isinstance(cause, Unreachable):
        return EnvironmentFailure(text)
    failure = Unreachable(text)
    failure.ask, failure.service = cause.ask, cause.service
    return failure


def _failure(batch: RecordBatch, index: int, part: str, serde: Serde | None, cause: Exception) -> SerdeError:
    data = (batch.keys if part == "key" else batch.values)[index] or b""
    shown = data[:40].hex() + ("..." if len(data) > 40 else "")
    reason = cause if serde is None else hinted(serde).misfit(cause)
    position = batch.offsets[index]
    system = batch.ssp.system
    way = f"systems.{system}.samza.{'key' if part == 'key' else 'msg'}.serde, or task.error.deserialize.policy"
    error = SerdeError(f"{batch.ssp}@{position}: {part}: {reason} (bytes {shown}); change {way}")
    error.__cause__ = cause
    error.call = FailedCall("", f"decoding of {batch.ssp}@{position}", (str(batch.ssp), position, position))
    return error
