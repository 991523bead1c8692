"""From configuration and model to a container."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from samzapy.api.lease import ContainerLease
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import StreamTask
from samzapy.checkpoint import manager_for
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.error_policy import Stage
from samzapy.config.job import JobConfig
from samzapy.container.attempts import Attempts
from samzapy.container.clients import SystemClients
from samzapy.container.lifecycle import Container
from samzapy.container.parts import Parts
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.failpoints import arm_from_environment
from samzapy.job.model import ContainerModel
from samzapy.metrics import Registry
from samzapy.plugins import PluginError, load_class
from samzapy.serializers import serde_registry
from samzapy.storage.manager import load_engines
from samzapy.system.factories import system_factory


def build_container(
    config: JobConfig,
    model: ContainerModel,
    lease: ContainerLease,
    *,
    ends: Mapping[SystemStreamPartition, int] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    on_lost: Callable[[str], None] | None = None,
) -> Attempts:
    """A container that is ready to `run`, and starts again by itself where that is enough; nothing is connected, opened or restored yet.

    `ends`: the offset before which each partition ends in a bounded run. `on_lost` is called, on the heartbeat's
    thread, when the lease is gone and the run loop has not let go a lease later (a stuck `process`).
    Raises ConfigError.
    """
    arm_from_environment(os.environ)
    task_class = load_task_class(config.task.task_class)
    name = f"{config.name}-{config.id}-{model.id}"
    engines = load_engines(config)
    serdes = serde_registry(config)

    def build() -> Container:
        clients = SystemClients(config.systems, system_factory, name, config.task.transaction_timeout_ms)
        checkpoints = manager_for(config, clients)
        parts = Parts(config, model, clients, checkpoints, engines, serdes, task_class, Registry())
        return Container(parts, lease, ends or {}, clock, on_lost)

    return Attempts(build, lease, config.task.errors.policies[Stage.PRODUCE])


def load_task_class(path: str) -> type[StreamTask]:
    """The user's class. Raises ConfigError, for the key `task.class`, when it is not a task that can be made."""
    try:
        found = load_class(path)
    except PluginError as cause:
        raise ConfigError([ConfigProblem("task.class", path, str(cause))]) from cause
    if not issubclass(found, StreamTask):
        message = f"{found.__name__} must be a StreamTask that defines process(envelope, collector, coordinator)"
        raise ConfigError([ConfigProblem("task.class", path, message)])
    missing = ", ".join(sorted(getattr(found, "__abstractmethods__", ())))
    if missing:
        message = f"{found.__name__} must define process(envelope, collector, coordinator); missing: {missing}"
        raise ConfigError([ConfigProblem("task.class", path, message)])
    return found
