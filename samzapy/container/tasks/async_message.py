"""The messages of an asynchronous task one by one: callback, outputs, turn to start, and place among those that are
done.

Outputs with ids leave in the order of the input, although messages end in any order. A receiver then only remembers its
last id of a partition, and a crash leaves a prefix. Outputs that are ready early are held; no commit covers them, since
a commit covers a message only with all messages before it. Outputs without ids leave as they are ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from samzapy.api.collector import ControlMessage, MessageCollector
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import TaskCallback
from samzapy.container.errors.recovery import TolerantCollector
from samzapy.container.inputs.decode import Undecodable
from samzapy.container.outputs.collector import Mark, Taken, no_envelope
from samzapy.container.outputs.producers import size_of

if TYPE_CHECKING:
    # As in `event_loop`: most jobs have no asynchronous tasks.
    import asyncio

#: While a task holds so much it starts no new messages, so one that takes long does not fill the memory.
MOST_HELD_BYTES = 16 * 1024 * 1024
#: The memory of a held message, and of each of its records, without its bytes.
_OVERHEAD_BYTES = 200


@dataclass
class Work:
    """A message that a task has accepted.

    `undecodable`: set until its bytes are decoded. `key`: it starts only after the messages of this key before it, None
    for no such order. `pauses`: the pauses left before further tries. `tried`: decoding was tried.
    """

    envelope: IncomingMessageEnvelope
    undecodable: Undecodable | None = None
    key: Hashable = None
    tried: bool = False
    pauses: Iterator[float] = field(default_factory=lambda: iter(()))


class ControlOutput(NamedTuple):
    """A control message among the outputs."""

    stream: SystemStream
    message: ControlMessage


#: Types of values that cannot change.
_IMMUTABLE = frozenset({str, bytes, int, float, bool, type(None)})


def as_it_is(value: Any) -> Any:
    """The value, or a copy that later changes of it do not reach. A value that cannot be copied is returned itself."""
    if type(value) in _IMMUTABLE:
        return value
    try:
        return _copied(value)
    except Exception:  # noqa: BLE001  # a class may refuse in any way; its serde has the last word
        return value


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) in _IMMUTABLE else _copied(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _IMMUTABLE else _copied(item) for item in value]
    return deepcopy(value)


class MessageOutputs(MessageCollector):
    """Gathers the outputs of one message, as of the time of each send. They are serialized when the message is done, on
    the task's thread, and dropped if it fails."""

    __slots__ = ("_position", "closed", "gathered")

    def __init__(self, position: str) -> None:
        self._position = position
        self.gathered: list[OutgoingMessageEnvelope | ControlOutput] = []
        self.closed = False

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        message, key = as_it_is(envelope.message), as_it_is(envelope.key)
        sent = (envelope.system_stream, message, key, envelope.partition_key, envelope.headers, envelope.timestamp)
        self._gather(OutgoingMessageEnvelope(*sent))

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        self._gather(ControlOutput(stream, message))

    def send_to(self, collector: MessageCollector) -> None:
        for output in self.gathered:
            if isinstance(output, ControlOutput):
                collector.send_control(*output)
            else:
                collector.send(output)

    def _gather(self, output: OutgoingMessageEnvelope | ControlOutput) -> None:
        if self.closed:
            raise RuntimeError(f"{self._position} is done: its collector takes no more outputs")
        self.gathered.append(output)


class MessageInFlight(TaskCallback):
    """One try at a message. `settle` accepts its end, from any thread: the message, its failure, and what to run before
    it counts as processed."""

    __slots__ = ("_settle", "coroutine", "ended", "outputs", "started_at", "work")

    def __init__(self, work: Work, started_at: float, settle: Callable[..., object]) -> None:
        self.work = work
        self.started_at = started_at
        self._settle = settle
        self.outputs = MessageOutputs(work.envelope.position)
        self.ended = False
        self.coroutine: asyncio.Task[None] | None = None

    def complete(self, then: Callable[[], object] | None = None) -> None:
        self._settle(self, None, then)

    def failure(self, error: BaseException) -> None:
        self._settle(self, _as_raised(error), None)


def _as_raised(error: object) -> BaseException:
    """The exception that `raise error` would raise, which the message fails with."""
    if isinstance(error, BaseException):
        return error
    if isinstance(error, type) and issubclass(error, BaseException):
        try:
            return error()
        except Exception as failure:  # noqa: BLE001  # such as a missing argument
            return failure
    return TypeError(f"callback.failure: expected an exception, got {type(error).__name__} {error!r}")


class WaitingMessages:
    """Messages in the order of acceptance. With `key_order` a message waits until the previous one of its key is done;
    messages without a key wait for none."""

    def __init__(self, *, key_order: bool) -> None:
        self._key_order = key_order
        self._accepted: deque[Work] = deque()
        self._behind: dict[Hashable, deque[Work]] = {}
        self._released: deque[Work] = deque()
        self._repetitions: list[tuple[float, Work]] = []

    def __len__(self) -> int:
        return len(self._accepted)

    @property
    def overtaken(self) -> bool:
        """Whether a later message has started before one that waits, for its key or for its repetition."""
        return bool(self._repetitions or self._released or any(self._behind.values()))

    @property
    def ready(self) -> bool:
        """Whether a message waits only for its turn: neither for a time nor for another message of its key."""
        return bool(self._accepted or self._released)

    def accept(self, work: Work) -> None:
        if work.undecodable is None:
            work.key = self._key_of(work)
        self._accepted.append(work)

    def enter(self, work: Work) -> bool:
        """Accept a message that decodes only now, and so gets its key only now; returns whether it may start. If a
        message of its key has overtaken it, it waits for that message, ahead of later ones of the key."""
        work.key = self._key_of(work)
        if work.key is None:
            return True
        behind = self._behind.get(work.key)
        if behind is None:
            self._behind[work.key] = deque()
            return True
        # Offsets of other partitions say nothing about the order.
        ssp, offset = work.envelope.ssp, work.envelope.offset
        later = (at for at, item in enumerate(behind) if item.envelope.ssp == ssp and item.envelope.offset > offset)
        behind.insert(next(later, len(behind)), work)
        return False

    def repeat(self, work: Work, at: float) -> None:
        self._repetitions.append((at, work))

    @property
    def repeating(self) -> int:
        return len(self._repetitions)

    @property
    def repeats_at(self) -> float:
        """The time of the first repetition; infinity for none."""
        return min((at for at, _ in self._repetitions), default=inf)

    def due(self, now: float) -> Work | None:
        for index, (at, work) in enumerate(self._repetitions):
            if now >= at:
                del self._repetitions[index]
                return work
        return None

    def released(self) -> Work | None:
        return self._released.popleft() if self._released else None

    def next(self) -> Work | None:
        work = self.released()
        while work is None and self._accepted:
            work = self._accepted.popleft()
            if work.key is not None and work.key in self._behind:
                self._behind[work.key].append(work)
                work = None
            elif work.key is not None:
                self._behind[work.key] = deque()
        return work

    def done(self, work: Work) -> None:
        """A started message will not be repeated: the next one of its key may start."""
        if work.key is None:
            return
        behind = self._behind[work.key]
        if behind:
            self._released.append(behind.popleft())
        else:
            del self._behind[work.key]

    def _key_of(self, work: Work) -> Hashable:
        key = work.envelope.key
        if not self._key_order or key is None:
            return None
        try:
            hash(key)
        except TypeError:
            return repr(key)
        return key  # type: ignore[no-any-return]


class ContiguousPrefix:
    """Offsets are accepted in order and completed in any; `position` is the next offset after the longest run, from the
    start, of offsets that are complete. It only grows."""

    def __init__(self, position: int) -> None:
        self._accepted: deque[int] = deque()
        self._complete: set[int] = set()
        self.position = position

    @property
    def gapped(self) -> bool:
        """Whether an offset after the position is complete."""
        return bool(self._complete)

    def accept(self, offset: int) -> None:
        self._accepted.append(offset)

    def complete(self, offset: int) -> int:
        accepted, complete = self._accepted, self._complete
        complete.add(offset)
        while accepted and accepted[0] in complete:
            done = accepted.popleft()
            complete.remove(done)
            self.position = done + 1
        return self.position


class OutputOrder:
    """Decides when the serialized outputs of one task leave. `in_order`: when every message before theirs on its
    partition is done; else when their message is."""

    def __init__(self, collector: TolerantCollector, *, in_order: bool, most_held_bytes: int = MOST_HELD_BYTES) -> None:
        self._collector = collector
        self._in_order = in_order
        self._most_held_bytes = most_held_bytes
        self._held: dict[SystemStreamPartition, list[tuple[int, int, Taken]]] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= self._most_held_bytes

    def mark(self) -> Mark:
        """A message ends; the collector now gathers its records."""
        return self._collector.mark() if self._in_order else ()

    def done(self, ssp: SystemStreamPartition, offset: int, position: int, mark: Mark) -> None:
        """The message at `offset` is done, and with it everything before `position`."""
        if not self._in_order:
            return
        if position <= offset:
            taken = self._collector.take_since(mark)
            size = _OVERHEAD_BYTES + sum(_OVERHEAD_BYTES + size_of(item) for _, records in taken for item in records)
            heappush(self._held.setdefault(ssp, []), (offset, size, taken))
            self._bytes += size
            return
        held = self._held.get(ssp)
        while held and held[0][0] < position:
            _, size, taken = heappop(held)
            self._collector.put_back(taken)
            self._bytes -= size
