"""Loads the user's task class, refuses one that cannot run, and warns of methods that are never called."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from samzapy.api import task as api
from samzapy.api.batch import BatchTask
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError
from samzapy.plugins import PluginError, load_class, load_name

#: The method that each kind of task must define.
_KINDS: dict[type, str] = {
    api.StreamTask: "process(envelope, collector, coordinator)",
    api.AsyncStreamTask: "process_async(envelope, collector, coordinator, callback)",
    api.CoroutineTask: "async process(envelope, collector, coordinator)",
    BatchTask: "process_batch(batch, collector, coordinator)",
}
_METHODS: dict[type, str] = {api.AsyncStreamTask: "process_async", BatchTask: "process_batch"}


def load_task_class(path: str) -> type[api.AnyTask]:
    """The user's class, or that of the user's pipeline. Raises ConfigError, for the key `task.class`, when it is not a
    task that can be made."""
    try:
        given = load_name(path)
        # Known by its plan: jobs of tasks import no pipelines.
        result = given.task if hasattr(given, "plan") and not isinstance(given, type) else load_class(path)
    except PluginError as cause:
        raise ConfigError.of("task.class", path, str(cause)) from cause
    problem = _shortcoming(result)
    if problem:
        raise ConfigError.of("task.class", path, f"{result.__name__} {problem}")
    return result


def _shortcoming(found: type) -> str | None:
    """The reason why a class is not exactly one kind of task, None if it is."""
    kinds = [kind for kind in _KINDS if issubclass(found, kind)]
    if not kinds:
        others = "an AsyncStreamTask, a CoroutineTask or a BatchTask"
        return f"must be a StreamTask that defines {_KINDS[api.StreamTask]}, or {others}"
    if len(kinds) > 1:
        return f"must be one of {' and '.join(kind.__name__ for kind in kinds)}, not both"
    kind, missing = kinds[0], ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
    if missing:
        return f"must define {_KINDS[kind]}; missing: {missing}"
    return _unfit_method(found, kind)


def _unfit_method(found: type, kind: type) -> str | None:
    """The reason why a method would not work as its kind requires, None if there is none."""
    name, count = _METHODS.get(kind, "process"), _parameters(kind)
    process = getattr(found, name)
    # A method of an ability's name with other parameters is the class's own.
    own = ((item, getattr(found, item, None), parameters) for item, parameters in _abilities().items())
    called = {item: method for item, method, parameters in own if callable(method) and api.takes(method, parameters)}
    for item, method in {name: process, **called}.items():
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            return f"must not yield in {item}: a generator's code never runs here; send outputs with collector.send"
        if kind is not api.CoroutineTask and inspect.iscoroutinefunction(method):
            return f"must not define {item} as a coroutine function: only a CoroutineTask's is awaited"
    if kind is api.CoroutineTask and not inspect.iscoroutinefunction(process):
        return "is a CoroutineTask, so its process must be a coroutine function: async def"
    if not _accepts(found, name, count):
        return f"must define {_KINDS[kind]}; its {name} takes {inspect.signature(process, follow_wrapped=False)}"
    return None


def _abilities() -> dict[str, int]:
    """The names of the methods of all abilities, and the number of their parameters with `self`."""
    return dict(item.method() for item in api.ABILITIES)


def _accepts(found: type, name: str, count: int) -> bool:
    """Whether a method takes this number of arguments, including `self`. For a decorated method the wrapper counts: it
    may add arguments. True for anything but a plain function."""
    if not inspect.isfunction(inspect.getattr_static(found, name)):
        return True
    try:
        inspect.signature(getattr(found, name), follow_wrapped=False).bind(*range(count))
    except TypeError:
        return False
    return True


def never_called(found: type[api.AnyTask], window_ms: int) -> Iterator[str]:
    """Warnings about methods that are named like one that samzapy calls, but take other parameters: an `init` without
    its context; and about a `window` without `window_ms`."""
    if issubclass(found, api.WindowableTask) and window_ms <= 0:
        yield f"task.window.ms: {window_ms}, so {found.__name__}.window is never called; set it, e.g. to 10s"
    for name, parameters in _abilities().items():
        own = getattr(found, name, None)
        if callable(own) and not api.takes(own, parameters) and name not in {"window", "close"}:
            yield (
                f"task.class: {found.__name__}.{name} is never called: it must take {parameters - 1} "
                f"argument{'s' * (parameters != 2)} beside self"
            )


def _parameters(kind: type) -> int:
    return len(inspect.signature(getattr(kind, _METHODS.get(kind, "process"))).parameters)


def check_timers(config: JobConfig, task_class: type[api.AnyTask]) -> None:
    """Raise ConfigError for a job that has a timer store but no TimerTask, or no windows for a task that needs them."""
    if config.task.window_ms <= 0 and getattr(task_class, "needs_window", False):
        message = f"must be > 0, e.g. 1000: {task_class.__name__} follows event time at that period"
        raise ConfigError.of("task.window.ms", str(config.task.window_ms), message)
    if config.timers_store is not None and not issubclass(task_class, api.TimerTask):
        message = (
            f"{task_class.__name__} must be a TimerTask that defines on_timer: store '{config.timers_store}' has timers"
        )
        raise ConfigError.of("task.class", config.task.task_class, message)
