"""The envelopes of messages, and the id of an output in effectively-once.

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
from itertools import repeat
from operator import index
from typing import TYPE_CHECKING, Any, Generic, NamedTuple
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
    """The timestamp as an int. Raises TypeError if it is not a whole number."""
    try:
        return index(timestamp)
    except TypeError:
        raise TypeError(f"timestamp: expected whole milliseconds since 1970, got {timestamp!r}") from None


class OutgoingMessageEnvelope:
    """One output message: `OutgoingMessageEnvelope(SystemStream("kafka", "out"), message, key=key)`.

    1. `partition_key` chooses the partition; an int is the partition itself. Without it `key` chooses; without both the
       system spreads the messages.
    2. `headers` are (name, bytes or None) pairs. `timestamp` is milliseconds since 1970, None for now. Kafka's
       client cannot send the time 0: it arrives as 1.
    3. A message of None is a tombstone.
    4. The stream is a SystemStream, never its text: `collector.send` raises TypeError for "kafka.out".

    Raises TypeError for other headers, and for a timestamp that is not an integer.
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
                    version = text.partition(":")[0]
                    raise ValueError(f"header {ID_HEADER} has version {version!r:.50}: this samzapy knows 2")
                source, offset, number = text.rsplit(":", 2)
                return cls(source, int(offset), int(number))
        return None
