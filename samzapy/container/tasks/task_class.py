"""Loads the user's task class and refuses one that cannot run."""

from __future__ import annotations

import inspect

from samzapy.api.batch import BatchTask
from samzapy.api.task import AnyTask, AsyncStreamTask, CoroutineTask, StreamTask, TimerTask
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, load_class

#: The method that each kind of task must define.
_KINDS: dict[type, str] = {
    StreamTask: "process(envelope, collector, coordinator)",
    AsyncStreamTask: "process_async(envelope, collector, coordinator, callback)",
    CoroutineTask: "async process(envelope, collector, coordinator)",
    BatchTask: "process_batch(batch, collector, coordinator)",
}
_METHODS: dict[type, str] = {AsyncStreamTask: "process_async", BatchTask: "process_batch"}


def load_task_class(path: str) -> type[AnyTask]:
    """The user's class. Raises ConfigError, for the key `task.class`, when it is not a task that can be made."""
    try:
        found = load_class(path)
    except PluginError as cause:
        raise ConfigError([ConfigProblem("task.class", path, str(cause))]) from cause
    problem = _shortcoming(found)
    if problem:
        raise ConfigError([ConfigProblem("task.class", path, f"{found.__name__} {problem}")])
    return found


def _shortcoming(found: type) -> str | None:
    """The reason why a class is not exactly one kind of task, None if it is."""
    kinds = [kind for kind in _KINDS if issubclass(found, kind)]
    if not kinds:
        return f"must be a StreamTask that defines {_KINDS[StreamTask]}, or an AsyncStreamTask, a CoroutineTask or a BatchTask"
    if len(kinds) > 1:
        return f"must be one of {' and '.join(kind.__name__ for kind in kinds)}, not both"
    kind, missing = kinds[0], ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
    if missing:
        return f"must define {_KINDS[kind]}; missing: {missing}"
    process = getattr(found, _METHODS.get(kind, "process"))
    if kind is CoroutineTask and not inspect.iscoroutinefunction(process):
        return "is a CoroutineTask, so its process must be a coroutine function: async def"
    if kind is not CoroutineTask and inspect.iscoroutinefunction(process):
        return f"must not define {process.__name__} as a coroutine function: only a CoroutineTask's is awaited"
    return None


def check_timers(config: JobConfig, task_class: type[AnyTask]) -> None:
    """Raise ConfigError for a job that has a timer store but no TimerTask."""
    if config.timers_store is not None and not issubclass(task_class, TimerTask):
        message = (
            f"{task_class.__name__} must be a TimerTask that defines on_timer: store '{config.timers_store}' has timers"
        )
        raise ConfigError([ConfigProblem("task.class", config.task.task_class, message)])
