"""The messages of an asynchronous task one by one: callback, outputs, turn to start, place among those that are done;
and the asyncio loop that they run on.

Outputs with ids leave in the order of the input, although messages end in any order. A receiver then only remembers its
last id of a partition, and a crash leaves a prefix. Outputs that are ready early are held; no commit covers them, since
a commit covers a message only with all messages before it. Outputs without ids leave as they are ready.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from samzapy.api.collector import ControlMessage, MessageCollector
from samzapy.api.envelope import IncomingMessageEnvelope, OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.task import TaskCallback
from samzapy.container.errors.recovery import TolerantCollector
from samzapy.container.outputs.collector import Mark, Taken, no_envelope
from samzapy.container.outputs.producers import size_of
from samzapy.storage.kv.forwarding import ForwardingStore, StoreLayer

if TYPE_CHECKING:
    # Most jobs have no asynchronous tasks.
    import asyncio

logger = logging.getLogger(__name__)

#: The memory of a held message, and of each of its records, without its bytes.
_OVERHEAD_BYTES = 200
#: The time that cancelled coroutines get to clean up.
_LONGEST_CANCELLATION_S = 5.0


@dataclass(slots=True)
class Work:
    """A message that a task has accepted. `pauses`: those left before further tries. `key`: it starts only after the
    messages of this key before it, None for no such order."""

    envelope: IncomingMessageEnvelope
    pauses: Iterator[float]
    key: Hashable = None


def _as_it_is(value: Any) -> Any:
    """A copy of the value that later changes of it do not reach. A value that cannot be copied is returned itself."""
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001  # a class may refuse in any way; its serde has the last word
        return value


class MessageOutputs(MessageCollector):
    """Gathers the outputs of one message, as of the time of each send. They are serialized when the message is done, on
    the task's thread, and dropped if it fails."""

    __slots__ = ("_position", "closed", "gathered")

    def __init__(self, position: str) -> None:
        self._position = position
        self.gathered: list[OutgoingMessageEnvelope | tuple[SystemStream, ControlMessage]] = []
        self.closed = False

    def send(self, envelope: OutgoingMessageEnvelope) -> None:
        if not isinstance(envelope, OutgoingMessageEnvelope):
            raise no_envelope(envelope)
        message, key = _as_it_is(envelope.message), _as_it_is(envelope.key)
        sent = (envelope.system_stream, message, key, envelope.partition_key, envelope.headers, envelope.timestamp)
        self._gather(OutgoingMessageEnvelope(*sent))

    def send_control(self, stream: SystemStream, message: ControlMessage) -> None:
        self._gather((stream, message))

    def send_to(self, collector: MessageCollector) -> None:
        for output in self.gathered:
            if isinstance(output, OutgoingMessageEnvelope):
                collector.send(output)
            else:
                collector.send_control(*output)

    def _gather(self, output: OutgoingMessageEnvelope | tuple[SystemStream, ControlMessage]) -> None:
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
        if not isinstance(error, BaseException):
            kind = type(error).__name__
            error = TypeError(f"callback.failure: expected an exception, got {kind} {error!r}")
        self._settle(self, error, None)


class WaitingMessages:
    """Messages in the order of acceptance. With `key_order` a message waits until the previous one of its key is done;
    messages without a key wait for none.

    accepted -> next -> in flight -> done                   (the next one of its key is released)
                              `----> repetitions -> due -> in flight
    """

    def __init__(self, *, key_order: bool) -> None:
        self._key_order = key_order
        self._accepted: deque[Work] = deque()
        self._of_key: dict[Hashable, deque[Work]] = {}
        self._released: deque[Work] = deque()
        self._repetitions: list[tuple[float, Work]] = []

    def __len__(self) -> int:
        return len(self._accepted)

    @property
    def overtaken(self) -> bool:
        """Whether a later message has started before one that waits, for its key or for its repetition."""
        return bool(self._repetitions or self._released or any(self._of_key.values()))

    @property
    def ready(self) -> bool:
        """Whether a message waits only for its turn: neither for a time nor for another message of its key."""
        return bool(self._accepted or self._released)

    @property
    def repeating(self) -> int:
        return len(self._repetitions)

    def accept(self, work: Work) -> None:
        key = work.envelope.key
        if self._key_order and key is not None:
            try:
                hash(key)
            except TypeError:
                key = repr(key)
            work.key = key
        self._accepted.append(work)

    def repeat(self, work: Work, at: float) -> None:
        self._repetitions.append((at, work))

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
            if work.key is not None and work.key in self._of_key:
                self._of_key[work.key].append(work)
                work = None
            elif work.key is not None:
                self._of_key[work.key] = deque()
        return work

    def done(self, work: Work) -> None:
        """A started message will not be repeated: the next one of its key may start."""
        if work.key is None:
            return
        if waiting := self._of_key[work.key]:
            self._released.append(waiting.popleft())
        else:
            del self._of_key[work.key]


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

    def __init__(self, collector: TolerantCollector, *, in_order: bool, most_held_bytes: int) -> None:
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
            if not (taken := self._collector.take_since(mark)):
                return
            size = _OVERHEAD_BYTES + sum(_OVERHEAD_BYTES + size_of(item) for _, records in taken for item in records)
            heappush(self._held.setdefault(ssp, []), (offset, size, taken))
            self._bytes += size
            return
        held = self._held.get(ssp)
        while held and held[0][0] < position:
            _, size, taken = heappop(held)
            self._collector.put_back(taken)
            self._bytes -= size


class EventLoop:
    """An event loop that the thread of the tasks makes, runs and closes."""

    def __init__(self) -> None:
        import asyncio  # noqa: PLC0415

        self._asyncio = asyncio
        #: The exception of a cancelled call.
        self.cancelled: type[BaseException] = asyncio.CancelledError
        self._loop = asyncio.new_event_loop()
        self._thread = threading.get_ident()
        self._running = False
        self._news = False

    def run(self, timeout_s: float) -> None:
        """Run coroutines and the calls of other threads, until there is news or the time is over."""
        loop = self._loop
        timer = loop.call_later(0.0 if self._news else timeout_s, loop.stop)
        self._running = True
        try:
            loop.run_forever()
        finally:
            self._running = self._news = False
            timer.cancel()

    def time(self) -> float:
        """The real time in seconds, for the waits of `run`; a test may move the job's clock."""
        return self._loop.time()

    def news(self) -> None:
        """A message has ended: `run` returns soon, or at once if it is not running."""
        self._news = True
        if self._running:
            self._loop.stop()

    def hand_over(self, call: Callable[..., object], *arguments: object) -> None:
        """Call `call` on the loop's thread: now if this is the thread, else by `run`."""
        if self.is_here():
            call(*arguments)
            return
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            logger.warning("A message's callback came after its container had closed; it is ignored.")

    def is_here(self) -> bool:
        """Whether the caller is on the tasks' thread."""
        return threading.get_ident() == self._thread

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._loop.create_task(coroutine)

    def finish(self, returned: object) -> object:
        """Wait for `returned` if it is awaitable, and give its result."""
        return self._loop.run_until_complete(returned) if inspect.isawaitable(returned) else returned

    def cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        """Cancel coroutines and let them clean up, for a few seconds at most."""
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(self._asyncio.wait(tasks, timeout=_LONGEST_CANCELLATION_S))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.cancel(list(self._asyncio.all_tasks(self._loop)))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


class LoopThreadStore(ForwardingStore[Any, Any]):
    """A store as an asynchronous task gets it. A call from any other thread raises RuntimeError, since it could come in
    the middle of a commit."""

    __slots__ = ("_is_here", "_name", "_store")

    def __init__(self, name: str, store: StoreLayer[Any, Any], is_here: Callable[[], bool]) -> None:
        self._name = name
        self._store = store
        self._is_here = is_here

    @property
    def _inner(self) -> StoreLayer[Any, Any]:  # type: ignore[override]
        if not self._is_here():
            raise RuntimeError(
                f"store '{self._name}' is for the task's thread: use it in process_async, or in callback.complete(then)"
            )
        return self._store

    def merge_all(self, entries: Mapping[Any, Any], combine: Callable[[Any, Any], Any]) -> None:
        self._inner.merge_all(entries, combine)
