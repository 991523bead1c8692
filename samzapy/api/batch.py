"""Batch tasks, and batches of messages as columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Generic, overload

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.envelope import Headers, IncomingMessageEnvelope, envelopes_of
from samzapy.api.kv import K, V
from samzapy.api.stream import SystemStreamPartition


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


class BatchTask(ABC, Generic[K, V]):
    """One task that processes the messages of its partitions in batches, in the order of each partition."""

    @abstractmethod
    def process_batch(
        self, batch: MessageBatch[K, V], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process a batch of messages of one partition, never an empty one.

        1. The batch holds the partition's messages of one poll, unless `task.batch.max.messages` or
           `task.batch.max.wait.ms` is set. It ends early where an event timer is due. A timer that this call sets
           fires after the batch. After a crash the same messages may come in other batches.
        2. Its messages are done when this returns. Requests to the coordinator take effect then.
        3. After an exception samzapy undoes the changes to stores, outputs and sinks. It processes each half of the
           batch by a separate call, until the failing message stands alone. `task.error.process.policy` applies to
           that message. All others are processed once. Under the policy `fail` the error names that message, and the
           attempt ends without a commit. A value that was changed in place is undone only with
           `stores.X.object.cache.mode=copy`, the default under other policies than `fail`.
        4. With effectively-once each output must name its input: `send_batch(..., inputs=batch.offsets)`. The
           outputs of an input must not depend on the ends of batches. With `task.batch.max.messages=1` the
           input is known.
        """
