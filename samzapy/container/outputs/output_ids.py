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

from collections.abc import Callable, Iterable

from samzapy.api.collector import ControlMessage, MessageCollector, TaskCoordinator
from samzapy.api.envelope import ID_HEADER, LETTER, OUTPUT, IncomingMessageEnvelope, Origin, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import StreamTask
from samzapy.container.outputs.collector import EncodedKey, no_envelope


class OutputIds:
    """The ids of one task's outputs."""

    __slots__ = ("_broadcast", "_job", "_prefixes", "_stream_id_of", "_task_name")

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
        found = self._prefixes.get((ssp, kind))
        if found is None:
            reader = self._task_name if ssp in self._broadcast else ""
            stream_id = self._stream_id_of(ssp.system_stream)
            origin = Origin(*self._job, ssp.system, ssp.stream, stream_id, ssp.partition, reader, kind)
            found = self._prefixes[ssp, kind] = f"{origin.source}:".encode()
        return found

    def letter(self, envelope: IncomingMessageEnvelope, number: int) -> bytes:
        """The id of the input's `number`-th dead letter."""
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
        """The outputs from here on come from this input."""
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
                envelope.system_stream,
                envelope.message,
                envelope.key,
                partition_key,
                headers,
                envelope.timestamp,
            )
        )

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        # A control message may be repeated without harm, so it needs no id.
        self._collector.send_control(stream, message)


class IdentifiedProcess:
    """Calls a task's `process` with a collector that knows the input at hand."""

    __slots__ = ("_collector", "_process")

    def __init__(self, task: StreamTask, collector: MessageCollector, ids: OutputIds) -> None:
        self._process: Callable[..., object] = task.process
        self._collector = OutputIdCollector(collector, ids)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> object:
        """Call the task's method; returns its value."""
        self._collector.begin(envelope)
        return self._process(envelope, self._collector, coordinator)
