"""Outputs: serialized when sent, handed to the producers a slice of messages at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, partial
from itertools import groupby, zip_longest
from typing import Any

from samzapy.api.collector import ControlMessage, MessageCollector, columns_of
from samzapy.api.envelope import Headers, OutgoingMessageEnvelope, checked_headers, whole_ms
from samzapy.api.serde import Serde, hinted
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingColumns, OutgoingRecord, SystemProducer, send_columns
from samzapy.container.event_time.control_messages import ControlRecords
from samzapy.errors import EnvironmentFailure, SerdeError
from samzapy.plugins import is_own
from samzapy.storage.readback import EVERY, ChangedOutput, Proof, read_back

Encode = Callable[[Any], bytes]
#: Gives a stream's key and message serde; None for plain bytes.
SerdesOf = Callable[[SystemStream], tuple[Serde | None, Serde | None]]
#: A record, or the columns of one `send_batch`.
Output = OutgoingRecord | OutgoingColumns
#: A stream's name, its encoders of key and message, the list that gathers its outputs, and the copy of a message.
Route = tuple[str, Encode, Encode, list[Output], Encode]

# An OutgoingRecord without the Python frame of its constructor.
_record = partial(tuple.__new__, OutgoingRecord)

#: Stands in for a missing serde: gives bytes back, and refuses everything else, in C.
_bytes_only: Encode = b"".__add__

#: Copies bytes. Encoders in C often return them in a buffer many times as large. Buffers that wait for their producer
#: drive the allocator to new pages of memory all the time: with 256 of them waiting, that is up to five times the
#: CPU of encoding and copying.
_tight: Encode = b"%b".__mod__


def no_envelope(given: object) -> TypeError:
    """The error for a value that is not an envelope."""
    return TypeError(f"expected an OutgoingMessageEnvelope to send, got {type(given).__name__} {given!r}")


class EncodedKey(bytes):
    """A partition key that needs no serde."""

    __slots__ = ()


class OwnHeaders(list[Headers]):
    """A column of headers that the runtime has made, so that they need no check."""

    __slots__ = ()


#: The number of gathered outputs of each system.
Mark = tuple[int, ...]
#: Outputs that were taken out again, by system.
Taken = Sequence[tuple[str, list[Output]]]


class Outbox(dict[str, list[Output]]):
    """The serialized outputs of one task that are not yet handed to a producer, by system."""

    __slots__ = ()

    def add(self, system: str, record: OutgoingRecord) -> None:
        self.setdefault(system, []).append(record)


class BufferingCollector(MessageCollector):
    """One task's collector. `hand_over` gives the gathered records to the producers, without waiting for their acks."""

    __slots__ = (
        "_by_columns", "_control", "_gathered", "_proofs", "_routes", "_sampled", "_serdes_of", "producer_of", "sent",
    )  # fmt: skip

    def __init__(
        self, serdes_of: SerdesOf, producer_of: Callable[[str], SystemProducer], control: ControlRecords, outbox: Outbox
    ) -> None:
        self._serdes_of = serdes_of
        self.producer_of = cache(producer_of)
        self._routes: dict[SystemStream, Route] = {}
        # A task mostly sends to the same stream as before, named by the same object.
        self._stream: SystemStream | None = None
        self._route: Route | None = None
        self._gathered = outbox
        self._control = control
        # The keys and messages of classes that are read back; `sent` at the last sample of them.
        self._proofs: dict[SystemStream, list[Proof | None]] = {}
        self._sampled = 0
        self._by_columns = False
        self.sent = 0

    @property
    def systems(self) -> Mapping[str, object]:
        return self._gathered

    @property
    def waiting(self) -> bool:
        return any(self._gathered.values())

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        try:
            stream = envelope.system_stream
        except AttributeError:
            raise no_envelope(envelope) from None
        if stream is not self._stream:
            self._choose(stream)
        name, encode_key, encode_message, records, tight = self._route  # type: ignore[misc]
        key, message, partition_key = envelope.key, envelope.message, envelope.partition_key
        try:
            if key is not None:
                key = encode_key(key)
            if message is not None:
                message = tight(encode_message(message))
            partition = None
            if partition_key is not None:
                if type(partition_key) is int:
                    partition, partition_key = partition_key, None
                elif type(partition_key) is not EncodedKey:
                    partition_key = encode_key(partition_key)
        except EnvironmentFailure:
            raise  # the serde cannot fetch its requirements: the message is not at fault, and no policy applies
        except Exception as cause:  # noqa: BLE001  # whatever else a serde raises is about this message
            self._refuse(envelope, cause)
            return
        records.append(_record((name, key, message, partition, partition_key, envelope.headers, envelope.timestamp)))

    def send_message(self, stream: SystemStream, message: Any, key: Any = None) -> None:
        if stream is not self._stream:
            self._choose(stream)
        name, encode_key, encode_message, records, tight = self._route  # type: ignore[misc]
        try:
            encoded_key = None if key is None else encode_key(key)
            encoded = None if message is None else tight(encode_message(message))
        except EnvironmentFailure:
            raise  # the serde cannot fetch its requirements: the message is not at fault, and no policy applies
        except Exception as cause:  # noqa: BLE001  # whatever else a serde raises is about this message
            self._refuse(OutgoingMessageEnvelope(stream, message, key), cause)
            return
        records.append(_record((name, encoded_key, encoded, None, None, None, None)))

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
        if stream is not self._stream:
            self._choose(stream)
        name, encode_key, encode_message, records, tight = self._route  # type: ignore[misc]
        rows = columns_of(keys, messages, partition_keys, headers, timestamps, inputs)
        if len(messages) == 0:
            return
        carried = headers if type(headers) is OwnHeaders else _column(headers, checked_headers)
        times = _column(timestamps, whole_ms)
        try:
            placed = _places(partition_keys, encode_key)
            values = _column(messages, encode_message, tight)
            encoded_keys = _column(keys, encode_key)
        except Exception:  # noqa: BLE001  # one by one, so that the error is about the message that it is of
            self._send_one_by_one(stream, rows)
            return
        assert values is not None
        self._by_columns = True
        records.append(OutgoingColumns(name, encoded_keys, values, *placed, carried, times))

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        self._records_of(stream).extend(self._control(stream, message))

    def mark(self) -> Mark:
        """The place where the outputs of the next message begin; valid until they are handed over."""
        return tuple(map(len, self._gathered.values()))

    def take_since(self, mark: Mark) -> Taken:
        """Take out the records sent since `mark`, including records to systems without earlier ones."""
        taken = []
        for (system, records), length in zip_longest(self._gathered.items(), mark, fillvalue=0):  # type: ignore[misc]
            if len(records) > length:
                taken.append((system, records[length:]))
                del records[length:]
        return taken

    def back_to(self, mark: Mark) -> None:
        """Drop the records sent since `mark`."""
        self.take_since(mark)

    def put_back(self, taken: Taken) -> None:
        for system, records in taken:
            self._gathered[system] += records

    def hand_over(self) -> None:
        if self._proofs and self.sent - self._sampled >= EVERY:
            self._sample()
        for system, records in self._gathered.items():
            if not records:
                continue
            if self._by_columns:
                self._hand_over_columns(self.producer_of(system), records)
            else:
                self.sent += len(records)
                self.producer_of(system).send(records)  # type: ignore[arg-type]  # nothing was sent as columns
            records.clear()

    def _choose(self, stream: SystemStream) -> None:
        # A value that is not a stream may be unhashable.
        route = self._routes.get(stream) if isinstance(stream, SystemStream) else None
        if route is None:
            key, message = self._serdes_of(stream)
            records = self._gathered.setdefault(stream.system, [])
            raw = _key_encoder(key), message.to_bytes if message else _bytes_only
            encode_key, encode_message = self._proving(stream, (key, message), raw)
            route = self._routes[stream] = (stream.stream, encode_key, encode_message, records, _copy_of(message))
        self._stream, self._route = stream, route

    def _proving(
        self, stream: SystemStream, serdes: Iterable[Serde | None], encoders: tuple[Encode, Encode]
    ) -> Sequence[Encode]:
        proofs = self._proofs.get(stream)
        if proofs is None:

            def choose_again() -> None:
                self._routes.pop(stream, None)
                self._stream = None

            backs = [None if serde is None else read_back(serde) for serde in serdes]
            proofs = [
                None if back is None else Proof(back, encode, choose_again)
                for back, encode in zip(backs, encoders, strict=True)
            ]
            if any(proofs):
                self._proofs[stream] = proofs
        return [proof if proof and proof.left > 0 else encode for proof, encode in zip(proofs, encoders, strict=True)]

    def _sample(self) -> None:
        self._sampled, self._stream = self.sent, None
        for stream, proofs in self._proofs.items():
            self._routes.pop(stream, None)
            for proof in filter(None, proofs):
                proof.sample()

    def _hand_over_columns(self, producer: SystemProducer, outputs: list[Output]) -> None:
        for kind, run in groupby(outputs, type):
            if kind is OutgoingRecord:
                records: list[Any] = list(run)
                self.sent += len(records)
                producer.send(records)
                continue
            for columns in run:
                assert isinstance(columns, OutgoingColumns)
                self.sent += columns.size
                send_columns(producer, columns)

    def _records_of(self, stream: SystemStream) -> list[Output]:
        self._choose(stream)
        return self._route[3]  # type: ignore[index]

    def _send_one_by_one(self, stream: SystemStream, rows: Iterable[Any]) -> None:
        for index, (key, message, partition_key, headers, timestamp, offset) in enumerate(rows):
            try:
                self.send(OutgoingMessageEnvelope(stream, message, key, partition_key, headers, timestamp))
            except SerdeError as failure:
                cause = "" if offset is None else f", from the input at offset {offset}"
                raise SerdeError(f"{failure} (output {index} of a batch{cause})") from failure

    def _refuse(self, envelope: OutgoingMessageEnvelope, cause: Exception) -> None:
        raise self._refusal(envelope, cause)

    def _refusal(self, envelope: OutgoingMessageEnvelope, cause: Exception) -> SerdeError:
        reason = f"cannot serialize {envelope!r}: {self._reason(envelope, cause)}"
        error = SerdeError(f"{envelope.system_stream}: {cause if isinstance(cause, ChangedOutput) else reason}")
        error.__cause__ = cause
        return error

    def _reason(self, envelope: OutgoingMessageEnvelope, cause: Exception) -> str:
        if isinstance(cause.__cause__, SerdeError):
            return f"message: {cause.__cause__}"  # of an object in it, which orjson hides
        serdes = self._serdes_of(envelope.system_stream)
        parts = [("key", serdes[0], envelope.key), ("message", serdes[1], envelope.message)]
        place = envelope.partition_key
        if type(place) is not int and type(place) is not EncodedKey:
            parts.append(("partition key", serdes[0], place))
        for part, serde, value in parts:
            if value is None:
                continue
            if serde is None:
                if not isinstance(value, bytes):
                    what, kind = part.rpartition(" ")[2], type(value).__name__
                    way = f"systems.{envelope.system_stream.system}.samza.{'key' if what == 'key' else 'msg'}.serde"
                    return f"no serde is set for the {what}: send bytes, or set {way}; got {kind}"
                continue
            if not is_own(type(serde)):
                continue  # a serde of the user may count its calls
            try:
                serde.to_bytes(value)
            except Exception as refused:  # noqa: BLE001  # whatever a serde raises is about this value
                why = refused if isinstance(refused, SerdeError) else hinted(serde).refusal(value, refused)
                return f"{part}: {why}"
        return str(cause)


def _key_encoder(serde: Serde | None) -> Encode:
    """The serialization of keys. Systems rely on bytes, so the result of a user's serde is checked; that of a message
    is when it is copied."""
    if serde is None:
        return _bytes_only
    to_bytes = serde.to_bytes
    if is_own(type(serde)):
        return to_bytes

    def encode(key: Any) -> bytes:
        data = to_bytes(key)
        return data if type(data) is bytes else _as_bytes(data)

    return encode


def _copy_of(serde: Serde | None) -> Encode:
    """The copy of a serialized message that waits for its producer; bytes that need none stay."""
    copy = _bytes_only if serde is None or hinted(serde).allocates_exactly else _tight
    if serde is None or is_own(type(serde)):
        return copy
    return lambda data: copy(data) if type(data) is bytes else _as_bytes(data)


def _as_bytes(data: Any) -> bytes:
    """The bytes of another buffer that a user's serde has made. Raises SerdeError for anything else."""
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise SerdeError(f"the serde made {type(data).__name__}, not bytes") from None


def _column(
    given: Sequence[Any] | None, convert: Callable[[Any], Any], keep: Encode = _bytes_only
) -> Sequence[Any] | None:
    """The converted values, each as `keep` gives it; None stays None."""
    if given is None:
        return None
    if type(convert) is Proof and 0 < (left := convert.left) < len(given):
        return [*(_column(given[:left], convert, keep) or ()), *(_column(given[left:], convert.encode, keep) or ())]
    if convert is keep and set(map(type, given)) <= {bytes}:
        return list(given)
    # Not `map`: a StopIteration of a serde would end it silently.
    if keep is _bytes_only:
        return [None if item is None else convert(item) for item in given]
    return [None if item is None else keep(convert(item)) for item in given]


def _places(
    given: Sequence[Any] | None, encode_key: Encode
) -> tuple[Sequence[int | None] | None, Sequence[bytes | None] | None]:
    """Partition and encoded partition key of each record, as `send` makes them."""
    if given is None:
        return None, None
    partitions = [item if type(item) is int else None for item in given]
    keys = [None if type(item) is int else item for item in given]
    return partitions, _column(keys, lambda key: key if type(key) is EncodedKey else encode_key(key))


def serdes_of_outputs(systems: Collection[str], own: Mapping[SystemStream, str], serdes_of: SerdesOf) -> SerdesOf:
    """`serdes_of` behind a check: a task may send to the streams of the job's `systems`, except to the job's `own`
    streams, which only the runtime writes to (each with its kind).

    Raises TypeError for a value that is not a SystemStream, ValueError for an unknown system and for the job's own
    changelogs and checkpoints. The error comes out of the user's `send`, so it names the input at hand.
    """

    def checked(stream: SystemStream) -> tuple[Serde | None, Serde | None]:
        if not isinstance(stream, SystemStream):
            kind = type(stream).__name__
            raise TypeError(f"expected a SystemStream to send to, got {kind} {stream!r}: SystemStream(system, stream)")
        if stream.system not in systems:
            known = ", ".join(sorted(systems))
            near = get_close_matches(stream.system, systems, n=1)
            hint = f"; did you mean {near[0]}?" if near else f", or add systems.{stream.system}.samza.factory"
            raise ValueError(
                f"cannot send to {stream}: system {stream.system!r} is not configured; known: {known}{hint}"
            )
        if stream in own:
            raise ValueError(f"cannot send to {stream}: it is {own[stream]}, which only the runtime writes")
        return serdes_of(stream)

    return checked
