"""The control messages of intermediate streams, as records, among polled messages, and added up by partition.

header  samzapy-control: watermark | end-of-stream | drain
key     samzapy-control/<sender>     so that a compacted stream keeps every sender's last one
value   {"sender": "shop-1/Partition 3", "senders": 8, "time-ms": 1700000000000}

The sender is a task, `senders` the number of tasks of its job; only a watermark has `time-ms`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from samzapy.api.checkpoint import SenderState
from samzapy.api.collector import CONTROL_HEADER, ControlMessage, Drain, EndOfStream, Watermark
from samzapy.api.envelope import Headers, IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, RecordBatch, SystemAdmin
from samzapy.clock import IdleRule, Watermarks
from samzapy.container.inputs.decode import Decoder, Undecodable, undecoded
from samzapy.errors import ConfigError, SerdeError, UnknownStream
from samzapy.strict_json import Natural, Time
from samzapy.strict_json import decode as decode_json

_NAMES: dict[type[ControlMessage], bytes] = {Watermark: b"watermark", EndOfStream: b"end-of-stream", Drain: b"drain"}

#: From a stream and a message to the records that carry it, one per partition.
ControlRecords = Callable[[SystemStream, ControlMessage], Sequence[OutgoingRecord]]
_Runs = Sequence[Sequence[IncomingMessageEnvelope]]


class SentControl(NamedTuple):
    """A control message, its sender, and the number of the sender's tasks in its job."""

    sender: str
    senders: int
    message: ControlMessage


class _Sent(msgspec.Struct, rename="kebab"):
    sender: str
    senders: Natural
    time_ms: Time | None = None


def encode(control: SentControl) -> tuple[bytes, bytes, Headers]:
    """The key, value and headers of its record."""
    data: dict[str, object] = {"sender": control.sender, "senders": control.senders}
    if isinstance(control.message, Watermark):
        data["time-ms"] = control.message.time_ms
    key = f"{CONTROL_HEADER}/{control.sender}".encode()
    return key, json.dumps(data).encode(), [(CONTROL_HEADER, _NAMES[type(control.message)])]


def is_control(headers: Headers | None) -> bool:
    """Whether a record with these headers is a control message: its header is the first."""
    return bool(headers) and headers[0][0] == CONTROL_HEADER  # type: ignore[index]  # not None


def decode(value: bytes | None, headers: Headers, position: str) -> SentControl:
    """The inverse of `encode`. Raises SerdeError, naming the position, for anything else."""
    name = headers[0][1] or b""
    try:
        data = decode_json(_Sent, value or b"")
        messages: dict[bytes, ControlMessage] = {_NAMES[EndOfStream]: EndOfStream(), _NAMES[Drain]: Drain()}
        if data.time_ms is not None:
            messages[_NAMES[Watermark]] = Watermark(data.time_ms)
        return SentControl(data.sender, data.senders, messages[name])
    except (ValueError, KeyError) as cause:
        allowed = ", ".join(item.decode() for item in _NAMES.values())
        raise SerdeError(
            f"{position}: not a control message ({type(cause).__name__}: {cause}): {name[:40]!r} "
            f"{(value or b'')[:80]!r}; expected {allowed} with sender and senders"
        ) from cause


class ControlRun(list[IncomingMessageEnvelope]):
    """A run of one control message; its envelope has the bytes that came."""

    __slots__ = ("control",)

    def __init__(self, raw: IncomingMessageEnvelope, control: SentControl) -> None:
        super().__init__([raw])
        self.control = control


class ControlDecoder(Decoder):
    """Decodes the batches of one intermediate stream: cuts them at control messages and leaves the rest to
    `messages`."""

    def __init__(self, messages: Decoder) -> None:
        super().__init__(None, None)
        self._messages = messages

    def runs(self, batch: RecordBatch, arrival_ms: int) -> _Runs:
        if batch.headers is None:
            return self._messages.runs(batch, arrival_ms)
        runs: list[Sequence[IncomingMessageEnvelope]] = []
        start = 0
        for index, headers in enumerate(batch.headers):
            if headers and is_control(headers):
                runs += self._between(batch, start, index, arrival_ms)
                raw = undecoded(batch, index, arrival_ms)
                runs.append(ControlRun(raw, decode(raw.message, headers, raw.position)))
                start = index + 1
        return [*runs, *self._between(batch, start, len(batch.offsets), arrival_ms)]

    def decode(self, batch: RecordBatch, arrival_ms: int) -> list[IncomingMessageEnvelope]:
        """The messages alone, for readers that ignore control messages."""
        runs = self.runs(batch, arrival_ms)
        return [envelope for run in runs if not isinstance(run, (ControlRun, Undecodable)) for envelope in run]

    def _between(self, batch: RecordBatch, start: int, stop: int, arrival_ms: int) -> _Runs:
        return [] if start == stop else self._messages.runs(batch.part(start, stop), arrival_ms)


class ControlSender:
    """Makes the control messages of one container's tasks."""

    def __init__(
        self, job_tasks: int, admin_of: Callable[[str], SystemAdmin], takes_control: Callable[[SystemStream], bool]
    ) -> None:
        """`job_tasks`: the number of tasks of the job, in all containers. `takes_control`: whether the job declares a
        stream intermediate."""
        self._job_tasks = job_tasks
        self._admin_of = admin_of
        self._takes_control = takes_control
        self._partitions: dict[SystemStream, int] = {}

    def of_task(self, task_name: str, job_of: Callable[[SystemStream], str]) -> ControlRecords:
        """The function for a task's collector. It raises UnknownStream, and ConfigError for a stream that is not
        intermediate. `job_of`: the job in the names of senders to a stream."""

        def records(stream: SystemStream, message: ControlMessage) -> Sequence[OutgoingRecord]:
            sender = f"{job_of(stream)}/{task_name}"
            key, value, headers = encode(SentControl(sender, self._job_tasks, message))
            partitions = range(self._count(stream))
            return [OutgoingRecord(stream.stream, key, value, number, None, headers) for number in partitions]

        return records

    def _count(self, stream: SystemStream) -> int:
        if stream not in self._partitions:
            if not self._takes_control(stream):
                key = f"systems.{stream.system}.streams.{stream.stream}.samza.intermediate"
                message = (
                    "must be true, here and in the jobs that read the stream, before control messages are sent to it"
                )
                raise ConfigError.of(key, "false", message)
            description = self._admin_of(stream.system).describe(stream.stream)
            if description is None:
                raise UnknownStream(stream.system, stream.stream)
            self._partitions[stream] = description.partitions
        return self._partitions[stream]


#: Stands for all senders that others have announced and that have sent nothing yet.
_MISSING = "?"


class Senders:
    """The last control message of each sender of one partition, and the least of their watermarks.

    1. Every control message has the number of senders of its job. Until that many senders have sent one, the missing
       ones hold the watermark back. Before the first control message at least one is missing.
    2. A sender that is idle, has ended or is drained holds nothing back. The missing ones together count as one source
       of the idle rule.
    3. When a job comes back with another number of tasks, the earlier messages of its tasks are void.
    4. When no sender counts, the watermark is the highest there was. It never goes back.
    """

    def __init__(self, known: Mapping[str, SenderState], now: float, idle_s: float = 0.0) -> None:
        """`known`: as the checkpoint kept it. `now` is monotonic; `idle_s` <= 0: no sender is ever idle."""
        self.known = dict(known)
        self._rule = IdleRule([*known, _MISSING], now, idle_s)
        self.watermark: int | None = None
        self._rebuild()

    @property
    def ended(self) -> bool:
        return not self._open and len(self.known) == self._all

    @property
    def drained(self) -> bool:
        return self.ended and any(state.drained for state in self.known.values())

    @property
    def idle(self) -> bool:
        """Whether some sender has not ended, and all such senders are idle."""
        return self._marks.holding is None and not self.ended

    @property
    def holding(self) -> str | None:
        """The sender that holds the watermark back, for people; None if no sender counts."""
        number = self._marks.holding
        return None if number is None else dict(enumerate(self._numbers)).get(number, "not heard yet")

    @property
    def silent(self) -> list[str]:
        return [name for name, state in self.known.items() if not _is_open(state) or name in self._rule.idle]

    def receive(self, control: SentControl, now: float) -> None:
        """Receive the next control message. A watermark revives a sender that had ended."""
        sender, senders, message = control
        if is_anew := self._senders_of.get(_job(sender)) != senders:
            for name in [name for name in self.known if _job(name) == _job(sender)]:
                del self.known[name]
                self._rule.forget(name)
        self._rule.receive(sender, now)
        before = self.known.get(sender)
        time_ms = None if before is None else before.time_ms
        if isinstance(message, Watermark):
            time_ms = message.time_ms if time_ms is None else max(time_ms, message.time_ms)
        state = SenderState(time_ms, senders, isinstance(message, EndOfStream), isinstance(message, Drain))
        self.known[sender] = state
        if is_anew or len(self.known) > self._all:
            self._rebuild()
            return
        number = self._numbers.setdefault(sender, len(self._numbers))
        self._open += _is_open(state) - (before is not None and _is_open(before))
        if isinstance(message, Watermark):
            self._marks.advance(number, message.time_ms)
        else:
            self._marks.set_aside(number)
        self._advance()

    def begin_anew(self) -> None:
        """Count no sender as ended, because messages have come after the end."""
        self.known = {name: state._replace(ended=False, drained=False) for name, state in self.known.items()}
        self._rebuild()

    def put_off(self, now: float) -> None:
        """Restart the silence of all senders, since control messages of any of them may wait. An idle sender stays idle
        until its message is received."""
        self._rule.put_off(now)

    def check_idle(self, now: float) -> bool:
        """Find senders that have fallen silent; returns whether there are new ones."""
        if is_new := self._rule.check(now):
            self._rebuild()
        return is_new

    def _rebuild(self) -> None:
        """Count everything anew: a control message alone must not cost more with more senders."""
        self._senders_of = {_job(sender): state.senders for sender, state in self.known.items()}
        self._open = sum(map(_is_open, self.known.values()))
        #: The number of senders, those not heard yet included: these take the numbers after the known ones'.
        self._all = max(sum(self._senders_of.values()), len(self.known), 1)
        self._numbers = {sender: number for number, sender in enumerate(self.known)}
        marks = {number: state.time_ms for number, state in enumerate(self.known.values()) if state.time_ms is not None}
        self._marks = Watermarks(range(self._all), marks)
        missing = range(len(self.known), self._all) if _MISSING in self._rule.idle else ()
        for number in (*map(self._numbers.__getitem__, self.silent), *missing):
            self._marks.set_aside(number)
        self._advance()

    def _advance(self) -> None:
        if (current := self._marks.current) is not None:
            self.watermark = current if self.watermark is None else max(self.watermark, current)


def _is_open(state: SenderState) -> bool:
    return not (state.ended or state.drained)


def _job(sender: str) -> str:
    return sender.partition("/")[0]
