"""The user's class in a replay: its failures are recorded, the debugger stops in it, and its sinks stay closed.

The class is watched by a subclass, so a container constructs and calls it as any other.
"""

from __future__ import annotations

import pdb  # noqa: T100  # this is what opens it
from collections.abc import Callable
from functools import wraps
from typing import Any

from samzapy.api.context import Context
from samzapy.api.task import AnyTask, AsyncStreamTask, BatchTask, CoroutineTask, InitableTask, TaskCallback
from samzapy.container.errors.user_failures import one_line, user_line, whole_traceback
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.job.lease import UserFailure
from samzapy.replay.history import Place
from samzapy.replay.recording import Recorder


class Watch:
    """Records the failures of one task's messages, and opens Python's debugger on this terminal: with `at_failures`
    after each failure, and before the message `stop` is processed."""

    def __init__(self, task: str, recorder: Recorder, *, at_failures: bool, stop: Place | None) -> None:
        self._task = task
        self._recorder = recorder
        self._at_failures = at_failures
        self._stop = stop
        self._last: BaseException | None = None

    def call(self, method: Callable[..., Any], task: Any, messages: Any, *rest: Any) -> Any:
        """Call a method that processes a message or a batch. Raises its exceptions."""
        try:
            if self._stop is not None and _holds(messages, self._stop):
                return pdb.Pdb().runcall(method, task, messages, *rest)
            return method(task, messages, *rest)
        except Exception as failure:
            self.failed(messages, failure)
            raise

    def failed(self, messages: Any, failure: BaseException) -> None:
        """Record a failure. One of a batch of several is skipped: its parts follow, and the failing one fails alone."""
        is_batch = _is_batch(messages)
        if failure is self._last or (is_batch and len(messages) != 1):
            return
        self._last = failure
        last = messages[-1] if is_batch else messages
        where = f"{'process_batch' if is_batch else 'process'} of {last.position}"
        about = type(failure).__name__, one_line(failure), self._task, where
        text = user_line(failure), whole_traceback(failure)
        self._recorder.failed(UserFailure(*about, *text, str(last.ssp), last.offset, last.offset))
        self._post_mortem(failure)

    def ended(self, failure: BaseException) -> None:
        """Open the debugger at the failure that has ended the replay, unless it was recorded with its message."""
        cause = failure.__cause__ or failure
        if cause is not self._last:
            self._post_mortem(cause)

    def _post_mortem(self, failure: BaseException) -> None:
        if self._at_failures and failure.__traceback__ is not None:
            pdb.post_mortem(failure.__traceback__)


def _is_batch(messages: Any) -> bool:
    return not hasattr(messages, "offset")


def _holds(messages: Any, place: Place) -> bool:
    first, last = (messages[0], messages[-1]) if _is_batch(messages) else (messages, messages)
    return bool(first.ssp == place.ssp and first.offset <= place.offset <= last.offset)


def watched(kind: type[AnyTask], watch: Watch) -> type[AnyTask]:
    """A subclass of the user's class that behaves like it, under its name."""
    methods: dict[str, Any] = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
    }
    if issubclass(kind, CoroutineTask):
        methods["process"] = _coroutine(kind.process, watch)
    elif issubclass(kind, AsyncStreamTask):
        methods["process_async"] = _with_callback(kind.process_async, watch)
    else:
        name = "process_batch" if issubclass(kind, BatchTask) else "process"
        methods[name] = _plain(getattr(kind, name), watch)
    if issubclass(kind, InitableTask):
        methods["init"] = _init(kind.init)
    result: type[AnyTask] = type(kind.__name__, (kind,), methods)
    return result


def _plain(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    def process(self: Any, messages: Any, *rest: Any) -> Any:
        return watch.call(method, self, messages, *rest)

    return process


def _coroutine(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    async def process(self: Any, message: Any, *rest: Any) -> Any:
        try:
            # The debugger stops where the coroutine is made; `step` goes to its first line.
            return await watch.call(method, self, message, *rest)
        except Exception as failure:
            watch.failed(message, failure)
            raise

    return process


def _with_callback(method: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(method)
    def process_async(self: Any, message: Any, collector: Any, coordinator: Any, callback: TaskCallback) -> Any:
        return watch.call(method, self, message, collector, coordinator, _WatchedCallback(callback, message, watch))

    return process_async


class _WatchedCallback(TaskCallback):
    """Records the failure that ends an asynchronous message."""

    def __init__(self, callback: TaskCallback, message: Any, watch: Watch) -> None:
        self._callback = callback
        self._message = message
        self._watch = watch

    def complete(self, then: Callable[[], object] | None = None) -> None:
        self._callback.complete(then)

    def failure(self, error: BaseException) -> None:
        self._watch.failed(self._message, error)
        self._callback.failure(error)


def _init(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def init(self: Any, context: Context) -> Any:
        task = context.task
        assert isinstance(task, ContainerTaskContext)
        starts = task.positions
        result = method(self, context)
        # The replay decides where the inputs start, and nothing reaches the database of a sink.
        for ssp, offset in starts.items():
            task.set_starting_offset(ssp, offset)
        task.sinks.clear()
        return result

    return init
