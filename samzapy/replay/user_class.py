"""The user's class in a replay: its failures are noted, the debugger stops in it, and its sinks stay closed.

The class is watched by a subclass, so a container makes and calls it as any other. Another version of it comes from a
file.
"""

from __future__ import annotations

import importlib.util
import pdb  # noqa: T100  # this is what opens it
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from samzapy.api.batch import BatchTask
from samzapy.api.context import Context, TaskContext
from samzapy.api.event_time import StateCheckpoints, Timers
from samzapy.api.metrics import MetricsRegistry
from samzapy.api.sink import Sink, TaskAttempt
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import AnyTask, AsyncStreamTask, CoroutineTask, InitableTask, TaskCallback
from samzapy.container.errors.user_failures import one_line, user_line, whole_traceback
from samzapy.container.tasks.task_class import load_task_class
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.job.lease import UserFailure
from samzapy.plugins import import_also_from
from samzapy.replay.feed import Place
from samzapy.replay.recording import Recorder


class Debugger(Protocol):
    """Takes over the terminal, and returns when the user lets the replay go on."""

    def post_mortem(self, traceback: TracebackType | None) -> None:
        """Look at the frames of a failure."""
        ...

    def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call, and stop at its first line; returns its result."""
        ...


class NoDebugger:
    """Stops nowhere."""

    def post_mortem(self, traceback: TracebackType | None) -> None:
        """The failure is only noted."""

    def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)


class Pdb:
    """Python's own debugger, on this terminal. `at_failures`: after each failure; else only where `run` is asked
    for."""

    def __init__(self, *, at_failures: bool) -> None:
        self._at_failures = at_failures

    def post_mortem(self, traceback: TracebackType | None) -> None:
        if self._at_failures and traceback is not None:
            pdb.post_mortem(traceback)

    def run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return pdb.Pdb().runcall(call, *arguments)


class Watch:
    """Notes the failures of one task's messages. `before`: the message at which the debugger stops before it is
    processed; None for nowhere."""

    def __init__(self, task: str, recorder: Recorder, debugger: Debugger, before: Place | None) -> None:
        self._task = task
        self._recorder = recorder
        self._debugger = debugger
        self._before = before
        self._last: BaseException | None = None

    def call(self, method: Callable[..., Any], task: Any, messages: Any, *rest: Any) -> Any:
        """Call a method that processes a message or a batch. Raises its exceptions."""
        stops = self._before is not None and _holds(messages, self._before)
        try:
            return self._debugger.run(method, task, messages, *rest) if stops else method(task, messages, *rest)
        except Exception as failure:
            self.failed(messages, failure)
            raise

    def failed(self, messages: Any, failure: BaseException) -> None:
        """Note a failure. A batch of several is not noted: its parts follow, and the failing one fails alone."""
        if failure is self._last or _size(messages) != 1:
            return
        self._last = failure
        call = "process_batch" if _is_batch(messages) else "process"
        last = messages[-1] if _is_batch(messages) else messages
        about = type(failure).__name__, one_line(failure), self._task, f"{call} of {last.position}"
        text = user_line(failure), whole_traceback(failure)
        self._recorder.failed(UserFailure(*about, *text, str(last.ssp), last.offset, last.offset))
        self._debugger.post_mortem(failure.__traceback__)

    def ended(self, failure: BaseException) -> None:
        """Open the debugger at the failure that has ended the replay, unless it was noted for its message already."""
        cause = failure.__cause__ or failure
        if cause is not self._last:
            self._debugger.post_mortem(cause.__traceback__)


def _is_batch(messages: Any) -> bool:
    return not hasattr(messages, "offset")


def _size(messages: Any) -> int:
    return len(messages) if _is_batch(messages) else 1


def _holds(messages: Any, place: Place) -> bool:
    first, last = (messages[0], messages[-1]) if _is_batch(messages) else (messages, messages)
    return bool(first.ssp == place.ssp and first.offset <= place.offset <= last.offset)


def watched(kind: type[AnyTask], watch: Watch) -> type[AnyTask]:
    """A subclass of the user's class that behaves like it, under its name."""
    made: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    if issubclass(kind, CoroutineTask):
        made["process"] = _coroutine(kind.process, watch)
    elif issubclass(kind, AsyncStreamTask):
        made["process_async"] = _with_callback(kind.process_async, watch)
    else:
        name = "process_batch" if issubclass(kind, BatchTask) else "process"
        made[name] = _plain(getattr(kind, name), watch)
    if issubclass(kind, InitableTask):
        made["init"] = _init(kind.init)
    found: type[AnyTask] = type(kind.__name__, (kind,), made)
    return found


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
    """Notes the failure that ends an asynchronous message."""

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
        return method(self, replace(context, task=_ReplayContext(context.task)))

    return init


class _ReplayContext(TaskContext):
    """The context of a task in a replay: its sinks stay closed, and the replay says where the inputs start."""

    def __init__(self, real: TaskContext) -> None:
        self._real = real

    @property
    def task_name(self) -> str:
        return self._real.task_name

    @property
    def ssps(self) -> frozenset[SystemStreamPartition]:
        return self._real.ssps

    @property
    def metrics(self) -> MetricsRegistry:
        return self._real.metrics

    @property
    def epoch(self) -> int:
        return self._real.epoch

    @property
    def timers(self) -> Timers:
        return self._real.timers

    @property
    def positions(self) -> Mapping[SystemStreamPartition, int]:
        return self._real.positions

    @property
    def state_checkpoints(self) -> StateCheckpoints:
        return self._real.state_checkpoints

    def get_store(self, name: str, kind: type[Any] = object) -> Any:
        return self._real.get_store(name, kind)

    def set_starting_offset(self, ssp: SystemStreamPartition, offset: int) -> None:
        """The replay says where."""

    def replay_from(self, ssp: SystemStreamPartition, offset: int) -> int:
        return self._real.positions[ssp]

    def register_sink(self, sink: Sink) -> None:
        self._real.register_sink(_ClosedSink(sink))


class _ClosedSink(Sink):
    """Replaces a sink and is never opened, so nothing reaches its database."""

    def __init__(self, real: Sink) -> None:
        self._real = real

    @property
    def name(self) -> str:
        return self._real.name

    def open(self, attempt: TaskAttempt) -> Mapping[SystemStreamPartition, int]:
        return {}

    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        """Make nothing durable."""

    def close(self) -> None:
        """Nothing to close."""


def other_version(text: str) -> type[AnyTask]:
    """The class of `--diff`: `folder/task.py:Class`, or `package.module:Class`. Raises ConfigError.

    Modules next to the file are found, unless one of that name is imported already.
    """
    place, colon, name = text.rpartition(":")
    if not colon:
        raise ConfigError([ConfigProblem("--diff", text, "expected file.py:Class or package.module:Class")])
    try:
        return load_task_class(f"{_module(text, Path(place)) if place.endswith('.py') else place}:{name}")
    except ConfigError as cause:
        reasons = "; ".join(problem.message for problem in cause.problems)
        raise ConfigError([ConfigProblem("--diff", text, reasons)]) from cause


def _module(text: str, path: Path) -> str:
    """The file as a module, under a unique name."""
    if not path.is_file():
        raise ConfigError([ConfigProblem("--diff", text, f"there is no file {path}")])
    name = f"samzapy_replayed_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    import_also_from([str(path.resolve().parent)])
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as cause:
        del sys.modules[name]
        reason = f"cannot be imported ({type(cause).__name__}: {cause})"
        raise ConfigError([ConfigProblem("--diff", text, reason)]) from cause
    return name
