"""The interfaces a user implements: one of `StreamTask`, `AsyncStreamTask` and `CoroutineTask`; the others add a power
each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context, JobContext
from samzapy.api.envelope import IncomingMessageEnvelope


class StreamTask(ABC):
    """One task: processes the messages of its partitions, one at a time, in the order of each partition."""

    @abstractmethod
    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process one message. It is done when this returns; an exception ends the attempt without a commit."""


class TaskCallback(ABC):
    """Says how one asynchronous message ended. May be called from any thread; the first call counts, a later one is
    ignored with a line in the log."""

    @abstractmethod
    def complete(self, then: Callable[[], object] | None = None) -> None:
        """The message is processed. `then` is called first, on the task's own thread: what changes stores goes there.
        What `then` raises is the message's failure."""

    @abstractmethod
    def failure(self, error: BaseException) -> None:
        """The message could not be processed: its outputs are dropped, and `task.error.process.policy` says what
        follows; by default the attempt ends."""


class AsyncStreamTask(ABC):
    """A task whose messages are done when they say so: up to `task.max.concurrency` of them are in flight at once.

    They start in the order of each partition and may end in any. A commit covers a message only if it and every one
    before it in its partition are done; after a failure, or when one is not done within `task.callback.timeout.ms`,
    the attempt ends and the next one starts at the first that is not covered. This is Storm's acknowledgement, tuple by
    tuple, with time-out and replay.

    One thread calls the task: `process_async`, and `then` of its callbacks. Stores may be used there and nowhere else
    (RuntimeError). The collector of a message takes outputs from any thread until the message is done, and sends them
    when it is.
    """

    @abstractmethod
    def process_async(
        self,
        envelope: IncomingMessageEnvelope,
        collector: MessageCollector,
        coordinator: TaskCoordinator,
        callback: TaskCallback,
    ) -> None:
        """Begin with one message, and return without waiting for it. An exception is the message's failure."""


class CoroutineTask(ABC):
    """An AsyncStreamTask written as a coroutine: a message is done when its `process` returns.

    Coroutines run on the task's thread, so stores and collector may be used anywhere in them; between two awaits
    nothing else of the task runs. `init`, `window`, `close` and what begins with `on_` may be coroutine functions too.
    What a coroutine leaves running behind it (`asyncio.create_task`) runs only while messages are in flight.
    """

    @abstractmethod
    async def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process one message. An exception is the message's failure."""


#: What a `task.class` may be.
AnyTask = StreamTask | AsyncStreamTask | CoroutineTask


class InitableTask(ABC):
    """A task that prepares itself."""

    @abstractmethod
    def init(self, context: Context) -> None:
        """Called once, after the task's stores are restored and before its first message."""


class CopartitionedTask:
    """A task in which messages of equal keys of all its inputs have to meet, because it joins them.

    A job whose inputs do not have the same number of partitions is refused before it starts (EnvironmentFailure); for
    other tasks that is a warning. Nothing can tell how the inputs' writers choose partitions: let them use the same.
    """


class WindowableTask(ABC):
    """A task with a timer."""

    @abstractmethod
    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called every `task.window.ms` (default -1: never), never at the same time as `process`."""


class TimerTask(ABC):
    """A task that sets timers: `context.task.timers`."""

    @abstractmethod
    def on_timer(self, key: Any, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once for a timer whose time has come, in order of time, never at the same time as `process`.

        The timer is gone then, and comes back only if what this call does is not committed.
        """


class ClosableTask(ABC):
    """A task that cleans up."""

    @abstractmethod
    def close(self) -> None:
        """Called at shutdown, before the stores close. Not called when the process is killed."""


class EndOfStreamListenerTask(ABC):
    """A task that wants to know when its bounded inputs have ended, by `--until-end`, or because all senders of an
    intermediate stream have said so."""

    @abstractmethod
    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once, when all of the task's partitions have reached their end."""


class WatermarkListenerTask(ABC):
    """A task that reads intermediate streams and wants to know how far event time has come in the stages before it."""

    @abstractmethod
    def on_watermark(self, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called when the task's watermark has moved: the least, over its intermediate partitions, of the least watermark
        of each one's senders. All messages before it are processed. A task that sends on says so in turn, with
        `collector.send_control(stream, Watermark(time_ms))`."""


class DrainListenerTask(ABC):
    """A task that wants to know that its job is being drained."""

    @abstractmethod
    def on_drain(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once, in place of `on_end_of_stream`, when everything is processed that was there when the drain was
        asked for; a commit follows, and the stop. A task that sends to an intermediate stream drains the next stage with
        `collector.send_control(stream, Drain())`."""


class SideInputsProcessor(ABC):
    """Named by `stores.NAME.side.inputs.processor.factory` or `stores.NAME.restore.inputs.processor.factory`; made
    without arguments, one for each store of a task.

    What a message does to the store may depend on the message and the store alone: after a crash messages are processed
    again, on the store as it was before them.
    """

    def init(self, job: JobContext) -> None:  # not every processor has something to prepare
        """Called once, before the first message."""

    @abstractmethod
    def process(self, message: IncomingMessageEnvelope, store: Any) -> Iterable[tuple[Any, Any]] | None:
        """The entries to put into the store, in order; a value of None deletes its key, a key of None
        is left out.

        `store` is the one to be filled, as a task gets it, and may be read and written here. With an engine that has an
        interface of its own the processor writes through that, and returns nothing. An exception ends the attempt.
        """
