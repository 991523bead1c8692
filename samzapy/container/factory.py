"""From configuration and model to a container."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping

from samzapy.api.lease import ContainerLease
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import AnyTask, AsyncStreamTask, CoroutineTask, StreamTask, TimerTask
from samzapy.checkpoint import manager_for
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.error_policy import Stage
from samzapy.config.job import JobConfig
from samzapy.config.promises import downgrades
from samzapy.container.attempts import Attempts
from samzapy.container.descriptors import provide_descriptors
from samzapy.container.lifecycle import Container
from samzapy.container.ownership import Ownership
from samzapy.container.parts import Parts, Plugins
from samzapy.container.reporting import Reporting
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.failpoints import arm_from_environment
from samzapy.job.model import ContainerModel
from samzapy.job.transactions import StateTransactions, state_transactions, weakened_state
from samzapy.metrics import Registry
from samzapy.plugins import PluginError, load_class
from samzapy.serializers import serde_registry
from samzapy.storage.engines import load_engines
from samzapy.system.clients import job_clients
from samzapy.system.factories import has_transactions


def build_container(
    config: JobConfig,
    model: ContainerModel,
    lease: ContainerLease,
    *,
    ends: Mapping[SystemStreamPartition, int] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    on_lost: Callable[[str], None] | None = None,
    run_id: str | None = None,
    transactions: bool = True,
) -> Attempts:
    """A container that is ready to `run`, and starts again by itself where that is enough; nothing is connected, opened or restored yet.

    `ends`: the offset before which each partition ends in a bounded run. `on_lost` is called, on the heartbeat's
    thread, when the lease is gone and the run loop has not let go a lease later (a stuck `process`). `run_id`: the run that the container is part of, whose successors it gives way to. `transactions`: False where a system has refused the job's transactional ids.
    Raises ConfigError, TooFewFiles.
    """
    arm_from_environment(os.environ)
    provide_descriptors(config, model)
    task_class = load_task_class(config.task.task_class)
    plugins = Plugins(load_engines(config), serde_registry(config), task_class)
    ownership = Ownership(config, run_id)
    metrics = Registry()
    state = state_transactions(config, has_transactions) if transactions else StateTransactions(None, "task.guarantee")
    metrics.gauge("promises", "weakened").set(len((*downgrades(config, task_class), *weakened_state(config, state))))

    def build() -> Container:
        clients = job_clients(config, model.id, config.task.transaction_timeout_ms)
        checkpoints = manager_for(config, clients)
        parts = Parts(config, model, clients, checkpoints, plugins, metrics, state.system)
        return Container(parts, lease, ends or {}, clock, ownership, on_lost)

    produce = config.task.errors.policies[Stage.PRODUCE]
    reporting = Reporting(config, model.id, metrics, clock)
    return Attempts(build, lease, ownership, produce, reporting, config.task.transaction_timeout_ms, clock)


#: What each kind of task has to define.
_KINDS: dict[type, str] = {
    StreamTask: "process(envelope, collector, coordinator)",
    AsyncStreamTask: "process_async(envelope, collector, coordinator, callback)",
    CoroutineTask: "async process(envelope, collector, coordinator)",
}


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
    """What keeps a class from being one kind of task."""
    kinds = [kind for kind in _KINDS if issubclass(found, kind)]
    if not kinds:
        return f"must be a StreamTask that defines {_KINDS[StreamTask]}, or an AsyncStreamTask or a CoroutineTask"
    if len(kinds) > 1:
        return f"must be one of {' and '.join(kind.__name__ for kind in kinds)}, not both"
    kind, missing = kinds[0], ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
    if missing:
        return f"must define {_KINDS[kind]}; missing: {missing}"
    process = found.process_async if kind is AsyncStreamTask else found.process  # type: ignore[attr-defined]
    if kind is CoroutineTask and not inspect.iscoroutinefunction(process):
        return "is a CoroutineTask, so its process must be a coroutine function: async def"
    if kind is not CoroutineTask and inspect.iscoroutinefunction(process):
        return f"must not define {process.__name__} as a coroutine function: only a CoroutineTask's is awaited"
    return None


def check_timers(config: JobConfig, task_class: type[AnyTask]) -> None:
    """Raise ConfigError for a job that keeps timers which nobody would be called back for."""
    if config.timers_store is not None and not issubclass(task_class, TimerTask):
        message = (
            f"{task_class.__name__} must be a TimerTask that defines on_timer: store '{config.timers_store}' has timers"
        )
        raise ConfigError([ConfigProblem("task.class", config.task.task_class, message)])
