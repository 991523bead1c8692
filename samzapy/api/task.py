"""The interfaces that a user implements: one of `StreamTask`, `AsyncStreamTask`, `CoroutineTask` and `BatchTask`, and
any of the others, each of which adds one ability.

A class has an ability if it defines the method, whether or not it names the interface as a base. The interface is for
the type checker, which then checks the method's parameters. A method of that name with other parameters is not an
ability."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, ClassVar, Generic

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context, JobContext
from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch
from samzapy.api.kv import K, V
from samzapy.api.stream import SystemStream


class StreamTask(ABC, Generic[K, V]):
    """One task: processes the messages of its partitions, one at a time, in the order of each partition."""

    @abstractmethod
    def process(
        self, envelope: IncomingMessageEnvelope[K, V], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process one message. It is done when this returns; an exception ends the attempt without a commit."""


class TaskCallback(ABC):
    """Ends one asynchronous message. May be called from any thread. The first call counts; a later one is ignored, with
    a line in the log."""

    @abstractmethod
    def complete(self, then: Callable[[], object] | None = None) -> None:
        """The message is processed. `then` is called first, on the task's own thread: change stores there. An exception
        of `then` is the message's failure."""

    @abstractmethod
    def failure(self, error: BaseException) -> None:
        """The message could not be processed. Its outputs are dropped, and `task.error.process.policy` applies; by
        default the attempt ends."""


class AsyncStreamTask(ABC, Generic[K, V]):
    """A task that completes its messages by callbacks, with up to `task.max.concurrency` of them in flight.

    1. Messages start in the order of each partition and may end in any.
    2. A commit covers a message if it and all before it in its partition are complete.
    3. After a failure, or if a message is incomplete after `task.callback.timeout.ms`, the attempt ends. The next one
       starts at the first message that no commit covers, as with Storm's acknowledgements.
    4. One thread calls the task: `process_async`, and `then` of its callbacks. Stores may be used there and nowhere
       else (RuntimeError).
    5. The collector of a message takes outputs from any thread until the message is complete, and sends them then.
    """

    @abstractmethod
    def process_async(
        self,
        envelope: IncomingMessageEnvelope[K, V],
        collector: MessageCollector,
        coordinator: TaskCoordinator,
        callback: TaskCallback,
    ) -> None:
        """Start to process one message, and return without waiting for it. An exception is the message's failure."""


class CoroutineTask(ABC, Generic[K, V]):
    """An AsyncStreamTask written as a coroutine: a message is complete when its `process` returns.

    1. Coroutines run on the task's thread, so they may use stores and collector anywhere. Between two awaits nothing
       else of the task runs.
    2. `init`, `window`, `close` and the methods that begin with `on_` may be coroutine functions as well.
    3. Tasks that a coroutine leaves behind (`asyncio.create_task`) run only while messages are in flight.
    """

    @abstractmethod
    async def process(
        self, envelope: IncomingMessageEnvelope[K, V], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process one message. An exception is the message's failure."""


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


#: The kinds of class for `task.class`.
AnyTask = StreamTask | AsyncStreamTask | CoroutineTask | BatchTask[Any, Any]


def takes(function: Callable[..., object], count: int) -> bool:
    """Whether a function accepts `count` positional arguments; True for a function without a signature."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True  # written in C
    return True


class Ability(ABC):  # noqa: B024  # its interfaces have the methods
    """The base of the interfaces of one method. Any class that defines the method counts as a subclass of its
    interface."""

    @classmethod
    def method(cls) -> tuple[str, int]:
        """The name of an interface's method, and the number of its parameters with `self`."""
        (name,) = cls.__abstractmethods__
        return name, len(inspect.signature(getattr(cls, name)).parameters)

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        if Ability not in cls.__bases__:
            return NotImplemented  # a class of the user
        name, parameters = cls.method()
        result = getattr(other, name, None)
        return True if callable(result) and takes(result, parameters) else NotImplemented


class InitableTask(Ability):
    """A task that prepares itself."""

    @abstractmethod
    def init(self, context: Context) -> None:
        """Called once, after the task's stores are restored and before its first message."""


class CopartitionedTask:
    """A task that joins its inputs, so messages with equal keys have to reach the same task.

    samzapy refuses a job with inputs of different partition counts before it starts (EnvironmentFailure); for other
    tasks this is a warning. samzapy cannot check how the writers of the inputs choose partitions, so let them use the
    same partitioner.
    """

    #: The inputs whose equal keys have to meet, by who needs them; None: all inputs of the task.
    copartitioned: ClassVar[Mapping[str, Collection[SystemStream]] | None] = None


class WindowableTask(Ability):
    """A task with a timer."""

    #: Whether it does not work without its timer: then a job with `task.window.ms` <= 0 is refused.
    needs_window: ClassVar[bool] = False

    @abstractmethod
    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called every `task.window.ms` (default -1: never), never at the same time as `process`."""


class TimerTask(Ability):
    """A task that sets timers: `context.task.timers`."""

    @abstractmethod
    def on_timer(self, key: Any, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once for each timer when its time has come, in the order of their times, never at the same time as
        `process`.

        By then the store no longer has the timer. It comes back only if the call is not committed.
        """


class ClosableTask(Ability):
    """A task that cleans up."""

    @abstractmethod
    def close(self) -> None:
        """Called at shutdown, after the last commit and before the stores close: its puts and outputs are not kept. Not
        called when the process is killed."""


class EndOfStreamListenerTask(Ability):
    """A task that reacts to the end of its inputs: by `--until-end`, or because all senders of an intermediate stream
    have ended."""

    @abstractmethod
    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once a run, after all partitions of the task have reached their ends. The next commit records the
        call. If the attempt crashes before that commit, or the call asks for a shutdown, the next attempt calls
        again."""


class WatermarkListenerTask(Ability):
    """A task that reads intermediate streams and follows the event time of the stages before it."""

    @abstractmethod
    def on_watermark(self, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called when the task's watermark has moved, after all messages before it are processed.

        The watermark is the lowest of all senders of the task's intermediate partitions. To forward it to the next
        stage, call `collector.send_control(stream, Watermark(time_ms))`.
        """


class DrainListenerTask(Ability):
    """A task that reacts to the drain of its job."""

    @abstractmethod
    def on_drain(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called instead of `on_end_of_stream`, and recorded like it, after all messages from before the request are
        processed. A commit and the stop follow. A task that sends to an intermediate stream drains the next stage with
        `collector.send_control(stream, Drain())`."""


#: The interfaces of one method.
ABILITIES: tuple[type[Ability], ...] = (
    InitableTask,
    WindowableTask,
    TimerTask,
    ClosableTask,
    EndOfStreamListenerTask,
    WatermarkListenerTask,
    DrainListenerTask,
)


class SideInputsProcessor(ABC):
    """Named by `stores.NAME.side.inputs.processor.factory` or `stores.NAME.restore.inputs.processor.factory`; made
    without arguments, one for each store of a task.

    The entries may depend only on the message and the store. After a crash messages are processed again, on the store's
    state from before them.
    """

    def init(self, job: JobContext) -> None:  # not every processor has something to prepare
        """Called once, before the first message."""

    @abstractmethod
    def process(
        self, message: IncomingMessageEnvelope, store: Any
    ) -> Iterable[tuple[Any, Any]] | dict[Any, Any] | None:
        """Return the entries to put into the store, as (key, value) pairs or a dict, in order; a value of None deletes
        its key, a key of None is ignored.

        `store` is the store to fill, as a task gets it; the processor may read and write it. With a view it writes
        through the interface of the view and returns nothing. An exception ends the attempt.
        """
