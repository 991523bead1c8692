"""Ids for outputs, so that a receiver can tell a repetition from a new message.

In effectively-once every output carries the header `samzapy-id`: the job, the input it came from, and its number among
that input's outputs (the format is in `samzapy.api.envelope`). Outputs of `window` and of the methods that begin with
`on_` come from no input and have no id.

A receiver drops outputs that it has seen, and no others:

1. A source (a job's tasks that read one partition of one incarnation of a stream) has unique names: no other job, no
   other stream and no later stream of the same name uses them.
2. A task numbers the outputs of an input from 0, and does so again when it processes the input again. A deterministic
   task sends the same ids with the same content.
3. The outputs of a source leave in the order of its offsets. Outputs of asynchronous tasks are held until every earlier
   message is done; records that a policy drops leave a hole.
4. A repeated output goes to the same partition as before. Without any key its offset and number choose the partition,
   where a producer would choose at random.
5. A producer keeps the order of each partition, and delivers nothing after a record that it could not deliver. So a
   partition of the output holds a prefix of the records sent there, plus whole repetitions of its end.
6. After a crash the sender continues from its last commit; all outputs before that were acknowledged. So a partition
   holds every id below its greatest one, and an id that is not greater is a repetition.
7. 3 to 6 may fail: a policy dropped a record in one attempt only, a stream has grown, or the sender is of an older
   version. Then the receiver's window decides: it remembers the latest ids one by one, and accepts a late one that is
   not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice, repeat
from operator import is_not, le, lt
from typing import Any

from samzapy.api.collector import ControlMessage, MessageCollector, TaskCoordinator
from samzapy.api.envelope import (
    ID_HEADER,
    LETTER,
    OUTPUT,
    Headers,
    IncomingMessageEnvelope,
    MessageBatch,
    OutgoingMessageEnvelope,
    checked_headers,
    source_of,
)
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingColumns, OutgoingRecord
from samzapy.api.task import BatchTask, StreamTask
from samzapy.container.outputs.collector import BufferingCollector, EncodedKey, Mark, Output, OwnHeaders, no_envelope
from samzapy.errors import TaskFailed


class OutputIds:
    """The ids of one task's outputs."""

    def __init__(
        self,
        job: tuple[str, str],
        task_name: str,
        broadcast: Iterable[SystemStreamPartition],
        stream_id_of: Callable[[SystemStream], str],
    ) -> None:
        """`job`: its name and id. `broadcast`: the partitions that every task reads. `stream_id_of` gives the id of an
        input stream's incarnation; it is called with the first message of a partition."""
        self._job = job
        self._task_name = task_name
        self._broadcast = frozenset(broadcast)
        self._stream_id_of = stream_id_of
        self._prefixes: dict[tuple[SystemStreamPartition, str], bytes] = {}

    def prefix(self, ssp: SystemStreamPartition, kind: str) -> bytes:
        """The beginning of all ids of this kind from this partition; the offset follows."""
        result = self._prefixes.get((ssp, kind))
        if result is None:
            reader = self._task_name if ssp in self._broadcast else ""
            stream_id = self._stream_id_of(ssp.system_stream)
            source = source_of(self._job, ssp, stream_id, reader, kind)
            result = self._prefixes[ssp, kind] = f"{source}:".encode()
        return result

    def letter(self, envelope: IncomingMessageEnvelope, number: int) -> bytes:
        return b"%b%d:%d" % (self.prefix(envelope.ssp, LETTER), envelope.offset, number)


class OutputIdCollector(MessageCollector):
    """Adds the id of the current input to outputs on their way to the task's collector."""

    __slots__ = ("_collector", "_ids", "_input", "_number", "_offset", "_prefix", "_ssp")

    def __init__(self, collector: MessageCollector, ids: OutputIds) -> None:
        self._collector = collector
        self._ids = ids
        self._ssp: SystemStreamPartition | None = None
        self._prefix = self._input = b""
        self._offset = self._number = 0

    def begin(self, envelope: IncomingMessageEnvelope) -> None:
        ssp = envelope.ssp
        if ssp is not self._ssp:
            self._ssp, self._prefix = ssp, self._ids.prefix(ssp, OUTPUT)
        self._offset = envelope.offset
        self._input = b"%b%d:" % (self._prefix, self._offset)
        self._number = 0

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        number, partition_key = self._number, envelope.partition_key
        self._number = number + 1
        if partition_key is None and envelope.key is None:
            partition_key = EncodedKey(b"%d:%d" % (self._offset, number))
        header = (ID_HEADER, b"%b%d" % (self._input, number))
        headers = (header, *envelope.headers) if envelope.headers else (header,)
        self._collector.send(
            OutgoingMessageEnvelope(
                envelope.system_stream, envelope.message, envelope.key, partition_key, headers, envelope.timestamp
            )
        )

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        # A control message may be repeated without harm, so it needs no id.
        self._collector.send_control(stream, message)


def identified_process(
    task: StreamTask, collector: MessageCollector, ids: OutputIds
) -> Callable[[IncomingMessageEnvelope, MessageCollector, TaskCoordinator], object]:
    """A task's `process`, called with a collector that knows the input at hand."""
    process: Callable[..., object] = task.process
    own = OutputIdCollector(collector, ids)

    def call(envelope: IncomingMessageEnvelope, _: MessageCollector, coordinator: TaskCoordinator) -> object:
        own.begin(envelope)
        return process(envelope, own, coordinator)

    return call


class BatchIdCollector(MessageCollector):
    """Adds the ids of their inputs to outputs on their way to the task's collector."""

    def __init__(self, collector: BufferingCollector, ids: OutputIds, *, one_by_one: bool) -> None:
        """`one_by_one`: each batch has one message, which all its outputs come from."""
        self._collector = collector
        self._ids = ids
        self._only = one_by_one
        self._mark: Mark = ()
        self._prefix = b""
        self._offsets: frozenset[int] = frozenset()
        self._numbers: dict[int, int] = {}
        self._last = -1
        self._in_order = True

    @property
    def undecided(self) -> bool:
        return self._collector.undecided

    def begin(self, batch: MessageBatch[Any, Any]) -> None:
        self._batch = batch
        self._prefix = self._ids.prefix(batch.ssp, OUTPUT)
        self._mark = self._collector.mark()
        self._offsets = frozenset()
        self._numbers = {}
        self._last = -1
        self._in_order = True

    def end(self) -> None:
        """The outputs of the batch are complete: sort them by their inputs."""
        if not self._in_order:
            taken = self._collector.take_since(self._mark)
            self._collector.put_back([(system, _ordered(records)) for system, records in taken])

    def from_input(self, offset: int) -> MessageCollector:
        return OneInputCollector(self, offset)

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        self.send_from(None, envelope)

    def send_from(self, inputs: Sequence[int] | None, envelope: OutgoingMessageEnvelope) -> None:
        """Send an output that comes from the only one of `inputs`."""
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        headers = None if envelope.headers is None else [envelope.headers]
        partition_keys = None if envelope.partition_key is None else [envelope.partition_key]
        self.send_batch(
            envelope.system_stream,
            None if envelope.key is None else [envelope.key],
            [envelope.message],
            partition_keys=partition_keys,
            timestamps=[envelope.timestamp],
            headers=headers,
            inputs=inputs,
        )

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
        if len(messages) == 0:
            return
        offsets = self._inputs_of(stream, len(messages), inputs)
        numbers = self._number(offsets)
        prefix = self._prefix
        ids = [((ID_HEADER, b"%b%d:%d" % (prefix, *place)),) for place in zip(offsets, numbers, strict=True)]
        carried = OwnHeaders(ids)
        if headers is not None:
            carried = OwnHeaders(
                own if given is None else (*own, *checked_headers(given))
                for own, given in zip(ids, headers, strict=True)
            )
        self._collector.send_batch(
            stream,
            keys,
            messages,
            partition_keys=_places(keys, partition_keys, offsets, numbers),
            timestamps=timestamps,
            headers=carried,
            inputs=offsets,
        )

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        # A control message may be repeated without harm, so it needs no id.
        self._collector.send_control(stream, message)

    def _inputs_of(self, stream: SystemStream, count: int, inputs: Sequence[int] | None) -> Sequence[int]:
        """The input of each output. Raises TaskFailed without one, and for an offset that the batch does not have."""
        if inputs is None:
            if self._only:
                return [self._batch.offsets[0]] * count
            raise TaskFailed(
                f"process_batch of {self._batch.position} sends to {stream} without inputs: in effectively-once each "
                "output needs the offset of the input it comes from; send_batch(..., inputs=batch.offsets), or set "
                "task.batch.max.messages=1"
            )
        if len(inputs) != count:
            raise ValueError(f"expected columns of one length, got {count} messages beside {len(inputs)} inputs")
        if not self._offsets:
            self._offsets = frozenset(self._batch.offsets)
        if not self._offsets.issuperset(inputs):
            other = next(item for item in inputs if item not in self._offsets)
            raise TaskFailed(
                f"process_batch of {self._batch.position} sends to {stream} with input {other!r}: expected an offset "
                "of the batch"
            )
        return inputs if isinstance(inputs, Sequence) else list(inputs)  # a column of pandas finds its items by label

    def _number(self, offsets: Sequence[int]) -> Sequence[int]:
        known = self._numbers
        following = islice(offsets, 1, None)
        if offsets[0] > self._last and all(map(lt, offsets, following)):
            self._last = offsets[-1]
            known.update(zip(offsets, repeat(1)))
            return [0] * len(offsets)
        self._in_order &= offsets[0] >= self._last and all(map(le, offsets, following))
        self._last = max(self._last, *offsets)
        numbers = []
        for offset in offsets:
            number = known.get(offset, 0)
            known[offset] = number + 1
            numbers.append(number)
        return numbers


def _places(
    keys: Sequence[Any] | None, partition_keys: Sequence[Any] | None, offsets: Sequence[int], numbers: Sequence[int]
) -> Sequence[Any] | None:
    """The partition keys; for an output without any key its offset and number, so that a repetition goes to the same
    partition."""
    if partition_keys is None and keys is not None and all(map(is_not, keys, repeat(None))):
        return None
    given = zip(
        repeat(None) if keys is None else keys,
        repeat(None) if partition_keys is None else partition_keys,
        offsets,
        numbers,
        strict=False,
    )
    return [
        EncodedKey(b"%d:%d" % (offset, number)) if key is None and partition_key is None else partition_key
        for key, partition_key, offset, number in given
    ]


def _ordered(outputs: list[Output]) -> list[Output]:
    """The outputs, as records, by offset and number of their ids; a record without an id keeps its place."""
    sections: list[list[OutgoingRecord]] = [[]]
    for record in chain.from_iterable(
        item.records() if isinstance(item, OutgoingColumns) else (item,) for item in outputs
    ):
        if record.headers and record.headers[0][0] == ID_HEADER:
            sections[-1].append(record)
        else:
            sections += [[record], []]
    for section in sections:
        if len(section) > 1:
            section.sort(key=_place)
    return list(chain.from_iterable(sections))


def _place(record: OutgoingRecord) -> tuple[int, int]:
    assert record.headers
    _, offset, number = (record.headers[0][1] or b"").rsplit(b":", 2)
    return int(offset), int(number)


class OneInputCollector(MessageCollector):
    """Names one input of the batch at hand as the source of its outputs."""

    def __init__(self, collector: BatchIdCollector, offset: int) -> None:
        self._collector = collector
        self._inputs = [offset]

    @property
    def undecided(self) -> bool:
        return self._collector.undecided

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        self._collector.send_from(self._inputs, envelope)

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        self._collector.send_control(stream, message)


def identified_batches(
    task: BatchTask[Any, Any], collector: BufferingCollector, ids: OutputIds, *, one_by_one: bool
) -> Callable[[MessageBatch[Any, Any], MessageCollector, TaskCoordinator], object]:
    """A task's `process_batch`, called with a collector that knows the batch at hand."""
    process: Callable[..., object] = task.process_batch
    own = BatchIdCollector(collector, ids, one_by_one=one_by_one)

    def call(batch: MessageBatch[Any, Any], _: MessageCollector, coordinator: TaskCoordinator) -> object:
        own.begin(batch)
        returned = process(batch, own, coordinator)
        own.end()
        return returned

    return call
