"""The envelopes of messages, batches of messages as columns, and the id of an output in effectively-once.

The header `samzapy-id` is text, eleven fields with colons between them:

    2:JOB:JOB-ID:SYSTEM:STREAM:STREAM-ID:PARTITION:TASK:KIND:OFFSET:NUMBER

    2          the version of the format
    STREAM-ID  given by the system; it changes when the stream is deleted and created again
    TASK       empty; the name of the task for an output that came from a broadcast input, which every task reads
    KIND       `out` for an output, `letter` for a dead letter
    OFFSET     of the input that the output came from
    NUMBER     of the output among those of its kind that came from that input, from 0

1. Names are percent-encoded, so no field holds a colon or a slash, and different senders have different ids.
2. Everything before OFFSET is the source of the id. A receiver remembers (OFFSET, NUMBER) by source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import index
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload
from urllib.parse import quote

from samzapy.api.kv import K, V
from samzapy.api.stream import SystemStream, SystemStreamPartition

#: Names and values, in order; names may repeat, and Kafka lets a value be null.
Headers = Sequence[tuple[str, bytes | None]]


class IncomingMessageEnvelope(
    NamedTuple(
        "_Fields",
        [
            ("ssp", SystemStreamPartition),
            ("offset", int),
            ("key", Any),
            ("message", Any),
            ("headers", Headers | None),
            ("event_time", int),
            ("arrival_time", int),
            ("size", int),
        ],
    ),
    Generic[K, V],
):
    """One input message, deserialized. A tuple, so that a batch of them is built without a Python frame each.

    `event_time` and `arrival_time` are milliseconds since 1970 (`event_time` is -1 if the system keeps none); `size`
    is the number of bytes of the serialized value; `offset` is the position in the partition; `headers` is None if
    there are none. A null key or message (a tombstone) is None.

    `IncomingMessageEnvelope[K, V]` gives type checkers the classes of key and message, `Any` without brackets. In the
    signature of a task's `process` it also names the class to decode to, if the job file names none.
    """

    # Python 3.10 has no generic NamedTuple. A subclass without a dict has the fields' C getters and the size of its
    # base.
    __slots__ = ()

    def __new__(
        cls,
        ssp: SystemStreamPartition,
        offset: int,
        key: K,
        message: V,
        *,
        headers: Headers | None = None,
        event_time: int = -1,
        arrival_time: int = -1,
        size: int = 0,
    ) -> IncomingMessageEnvelope[K, V]:
        return tuple.__new__(cls, (ssp, offset, key, message, headers, event_time, arrival_time, size))

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self[:4], dict(zip(self._fields[4:], self[4:], strict=True))

    if TYPE_CHECKING:

        @property
        def key(self) -> K: ...

        @property
        def message(self) -> V: ...

    @property
    def position(self) -> str:
        """The position of this message, `system.stream[partition]@offset`, for error messages."""
        return f"{self.ssp}@{self.offset}"


def envelopes_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[IncomingMessageEnvelope[Any, Any]]:
    """The envelopes of rows with all of their fields, without a Python frame each."""
    return map(tuple.__new__, repeat(IncomingMessageEnvelope), rows)


def checked_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """A copy of the headers: later changes of a list do not reach the message. Raises TypeError for anything but pairs
    of names and values, ValueError for a name that no message can have: one with a lone surrogate or a NUL."""
    fixed = printable = True
    try:
        kept = tuple(headers)
        for pair in kept:
            name, value = pair
            if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
                raise TypeError  # noqa: TRY301  # as the ones of wrong shapes
            fixed = fixed and type(pair) is tuple
            printable = printable and name.isprintable()
    except (TypeError, ValueError):
        raise TypeError(f"headers: expected (str, bytes or None) pairs, got {headers!r}") from None
    if not printable:
        _check_names([name for name, _ in kept])
    return kept if fixed else tuple((name, value) for name, value in kept)


def _check_names(names: Iterable[str]) -> None:
    for place, name in enumerate(names):
        if "\0" in name:
            raise ValueError(f"headers[{place}]: the name {name!r} has a NUL, which would end it")
        try:
            name.encode()
        except UnicodeEncodeError as cause:
            raise ValueError(f"headers[{place}]: the name {name!r} has no form in UTF-8 ({cause.reason})") from None


def whole_ms(timestamp: int) -> int:
    """The timestamp as an int. Raises TypeError if it is not a whole number of 64 bits."""
    try:
        if -(2**63) <= (whole := index(timestamp)) < 2**63:
            return whole
    except TypeError:
        pass
    raise TypeError(f"timestamp: expected whole milliseconds since 1970, got {timestamp!r}")


class OutgoingMessageEnvelope:
    """One output message: `OutgoingMessageEnvelope(SystemStream("kafka", "out"), message, key=key)`.

    1. `partition_key` chooses the partition; an int is the partition itself. Without it `key` chooses; without both the
       system spreads the messages.
    2. `headers` are (name, bytes or None) pairs. `timestamp` is milliseconds since 1970, None for now. Kafka's
       client cannot send the time 0: it arrives as 1.
    3. A message of None is a tombstone.
    4. The stream is a SystemStream, never its text: `collector.send` raises TypeError for "kafka.out". So does this
       class for other headers, and for a timestamp that is not an integer of 64 bits.
    """

    __slots__ = ("headers", "key", "message", "partition_key", "system_stream", "timestamp")

    def __init__(
        self,
        system_stream: SystemStream,
        message: Any,
        key: Any = None,
        partition_key: Any = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
    ) -> None:
        self.system_stream = system_stream
        self.message = message
        self.key = key
        self.partition_key = partition_key
        self.headers = headers if headers is None else checked_headers(headers)
        self.timestamp = timestamp if timestamp is None else whole_ms(timestamp)

    def __repr__(self) -> str:
        return f"OutgoingMessageEnvelope({self.system_stream}, key={self.key!r}, message={self.message!r})"


ID_HEADER = "samzapy-id"
#: The kinds of records that carry an id.
OUTPUT, LETTER = "out", "letter"
_VERSION = "2:"


def source_of(job: tuple[str, str], ssp: SystemStreamPartition, stream_id: str, task: str, kind: str) -> str:
    """The source of an id: everything before its offset. `job`: its name and id."""
    fields = (*job, ssp.system, ssp.stream, stream_id, ssp.partition, task, kind)
    return _VERSION + ":".join(quote(str(field), safe="") for field in fields)


class OutputId(NamedTuple):
    """The source of an output, the offset of its input, and its number among that input's outputs."""

    source: str
    offset: int
    number: int

    @classmethod
    def of(cls, headers: Headers | None) -> OutputId | None:
        """The id in a message's headers, None if there is none. Raises ValueError for a malformed id or an unknown
        version."""
        for name, value in headers or ():
            if name == ID_HEADER:
                text = (value or b"").decode()
                if not text.startswith(_VERSION):
                    raise ValueError(f"header {ID_HEADER}: expected version 2, got {text.partition(':')[0]!r:.50}")
                source, offset, number = text.rsplit(":", 2)
                return cls(source, int(offset), int(number))
        return None


class MessageBatch(Sequence[IncomingMessageEnvelope[K, V]], Generic[K, V]):
    """Consecutive messages of one partition, in the order of their offsets, as columns of equal length.

    1. A null key or message (a tombstone) is None. Offsets may have holes.
    2. A batch makes envelopes and frames on demand, and `timestamps` and `headers` if the system keeps none. So a
       task that reads columns pays for nothing else.
    3. A slice is a MessageBatch. Two batches are equal only if they are the same object.
    4. The columns belong to the runtime: do not change them.
    """

    __slots__ = (
        "_arrival_ms",
        "_headers",
        "_timestamps",
        "_values",
        "keys",
        "message_type",
        "messages",
        "offsets",
        "ssp",
    )

    def __init__(  # noqa: PLR0913  # a column each, and what they have in common
        self,
        ssp: SystemStreamPartition,
        offsets: Sequence[int],
        keys: Sequence[K],
        messages: Sequence[V],
        timestamps: Sequence[int] | None = None,
        headers: Sequence[Headers | None] | None = None,
        *,
        values: Sequence[bytes | None] | None = None,
        arrival_ms: int = -1,
        message_type: Any = None,
    ) -> None:
        """`timestamps` None: the system keeps none. `headers` None: no message has any. `values`: the serialized
        messages, for the sizes of envelopes. `arrival_ms`: the time of their arrival, in milliseconds since 1970.
        `message_type`: the class that the input decodes to, if it has one, for the columns of a frame of nulls."""
        self.ssp = ssp
        self.offsets = offsets
        self.keys = keys
        self.messages = messages
        self._timestamps = timestamps
        self._headers = headers
        self._values = values
        self._arrival_ms = arrival_ms
        self.message_type = message_type

    @classmethod
    def of(cls, envelopes: Sequence[IncomingMessageEnvelope[K, V]]) -> MessageBatch[K, V]:
        """The batch of these envelopes, at least one: consecutive messages of one partition."""
        ssp, offsets, keys, messages, headers, timestamps, arrivals, _ = zip(*envelopes, strict=True)
        return cls(ssp[0], offsets, keys, messages, timestamps, headers, arrival_ms=arrivals[0])

    @classmethod
    def joined(cls, batches: Sequence[MessageBatch[K, V]]) -> MessageBatch[K, V]:
        """One batch of one or more consecutive batches, with the arrival time of the first."""
        first = batches[0]
        if len(batches) == 1:
            return first

        def column(name: str, absent: int | None = None) -> Sequence[Any] | None:
            parts = [getattr(item, name) for item in batches]
            if parts.count(None) == len(parts):
                return None
            columns = zip(parts, batches, strict=True)
            return [value for part, item in columns for value in (repeat(absent, len(item)) if part is None else part)]

        return cls(
            first.ssp,
            _in_a_row([item.offsets for item in batches]),
            list(chain.from_iterable(item.keys for item in batches)),
            list(chain.from_iterable(item.messages for item in batches)),
            column("_timestamps", -1),
            column("_headers"),
            values=column("_values"),
            arrival_ms=first._arrival_ms,  # noqa: SLF001  # the same class
            message_type=first.message_type,
        )

    @property
    def timestamps(self) -> Sequence[int]:
        """The event times, milliseconds since 1970; -1 for a message without one."""
        if self._timestamps is None:
            self._timestamps = [-1] * len(self.offsets)
        return self._timestamps

    @property
    def headers(self) -> Sequence[Headers | None]:
        """The headers of each message, None where there are none."""
        if self._headers is None:
            self._headers = [None] * len(self.offsets)
        return self._headers

    @property
    def position(self) -> str:
        """The first and the last offset, `system.stream[partition]@12 to 17`, for error messages."""
        first, last = self.offsets[0], self.offsets[-1]
        return f"{self.ssp}@{first}" + (f" to {last}" if last != first else "")

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[IncomingMessageEnvelope[K, V]]:
        sizes = repeat(0) if self._values is None else _sizes(self._values)
        columns = zip(
            repeat(self.ssp),
            self.offsets,
            self.keys,
            self.messages,
            repeat(None) if self._headers is None else self._headers,
            repeat(-1) if self._timestamps is None else self._timestamps,
            repeat(self._arrival_ms),
            sizes,
        )
        return envelopes_of(columns)

    @overload
    def __getitem__(self, index: int) -> IncomingMessageEnvelope[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> MessageBatch[K, V]: ...

    def __getitem__(self, index: int | slice) -> IncomingMessageEnvelope[K, V] | MessageBatch[K, V]:
        timestamps, headers, values = self._timestamps, self._headers, self._values
        if isinstance(index, slice):
            return MessageBatch(
                self.ssp,
                self.offsets[index],
                self.keys[index],
                self.messages[index],
                None if timestamps is None else timestamps[index],
                None if headers is None else headers[index],
                values=None if values is None else values[index],
                arrival_ms=self._arrival_ms,
                message_type=self.message_type,
            )
        return IncomingMessageEnvelope(
            self.ssp,
            self.offsets[index],
            self.keys[index],
            self.messages[index],
            headers=None if headers is None else headers[index],
            event_time=-1 if timestamps is None else timestamps[index],
            arrival_time=self._arrival_ms,
            size=0 if values is None else len(values[index] or b""),
        )

    def __repr__(self) -> str:
        return f"MessageBatch({self.position}, {len(self)} messages)" if self.offsets else f"MessageBatch({self.ssp})"

    def to_arrow(self, message_type: Any = None) -> Any:
        """A `pyarrow.RecordBatch` with the columns `key`, the messages' columns, `offset` and `timestamp`.

        1. Messages that are dicts or have fields (msgspec Structs, dataclasses, attrs classes, NamedTuples, pydantic
           models) have one column per field. Others are the column `message`. A null message is null in every column.
        2. Annotations, or without them values, set the types of columns. `message_type` names the class if the
           messages do not, as with a TypedDict. A `datetime` column is in UTC, and takes a time without a zone as UTC.
           A value that its column would change, such as a fraction for an `int`, is refused.
        3. `timestamp` is in milliseconds of UTC, null for a message without one. If a field has the name of a
           column, the column gets an underscore in front: `_key`.

        Needs `samzapy[arrow]` (ImportError). Raises TypeError, with the column, for values that Arrow does not take.
        """
        from samzapy.arrow import columns  # noqa: PLC0415  # it needs an extra

        if message_type is None and all(item is None for item in self.messages):
            message_type = self.message_type
        return columns.record_batch(self.keys, self.messages, self.offsets, self.timestamps, message_type)

    def to_pandas(self, message_type: Any = None) -> Any:
        """Like `to_arrow`, but a `pandas.DataFrame`. Needs `samzapy[pandas]`.

        A column of whole numbers with nulls has a nullable type of pandas, such as `Int64`: no number becomes a float.
        """
        from samzapy.arrow import columns  # noqa: PLC0415  # it needs an extra

        return columns.to_pandas(self.to_arrow(message_type))

    def to_polars(self, message_type: Any = None) -> Any:
        """Like `to_arrow`, but a `polars.DataFrame`. Needs `samzapy[polars]`."""
        from samzapy.arrow import columns  # noqa: PLC0415  # it needs an extra

        return columns.to_polars(self.to_arrow(message_type))


def _sizes(values: Sequence[bytes | None]) -> list[int]:
    try:
        return list(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # a null
        return [len(value or b"") for value in values]


def _in_a_row(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """The offsets of batches that follow one another, none of them empty; a range if there are no holes."""
    whole = range(parts[0][0], parts[-1][-1] + 1)
    return whole if len(whole) == sum(map(len, parts)) else list(chain.from_iterable(parts))
