"""The order in which choosers are put on each other; it is written nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import MessageChooser
from samzapy.config.job import JobConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.streams.stream import BOOTSTRAP_PRIORITY
from samzapy.config.tasks.task import ChooserConfig
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, load_class
from samzapy.system.choosers.chooser import Batching, Chooser, JobsOwn, RoundRobin, Tiered


def is_wanted(config: JobConfig, ssps: Iterable[SystemStreamPartition]) -> bool:
    """Whether anything is to be chosen among these partitions; if not, messages come as they arrive."""
    chosen = config.task.chooser != ChooserConfig()
    return chosen or any(_has_order(config.stream(ssp.system_stream)) for ssp in ssps)


def chooser_of(config: JobConfig, ssps: frozenset[SystemStreamPartition]) -> Chooser:
    """Batching( Tiered( the job's own chooser, or turns ) ), each only if it is configured. Raises ConfigError."""
    make = _leaf(config)
    priority_of = {ssp: priority(config.stream(ssp.system_stream)) for ssp in ssps}
    tiers: Mapping[int, list[SystemStreamPartition]] = {
        each: [ssp for ssp in ssps if priority_of[ssp] == each] for each in set(priority_of.values())
    }
    made = {each: make(frozenset(tier)) for each, tier in tiers.items()}
    chooser: Chooser = next(iter(made.values())) if len(made) == 1 else Tiered(priority_of, made)
    if config.task.chooser.batch_size > 0:
        return Batching(chooser, config.task.chooser.batch_size)
    return chooser


def priority(stream: StreamConfig) -> int:
    """A stream's priority: Samza's default is 0, and the highest there is for bootstrap streams."""
    if stream.priority >= 0:
        return stream.priority
    return BOOTSTRAP_PRIORITY if stream.bootstrap else 0


def load_chooser(config: JobConfig) -> type[MessageChooser] | None:
    """The class that `task.chooser.class` names; None for turns. Raises ConfigError."""
    path = config.task.chooser.chooser_class
    if path is None:
        return None
    try:
        found = load_class(path)
    except PluginError as cause:
        raise ConfigError([ConfigProblem("task.chooser.class", path, str(cause))]) from cause
    if not issubclass(found, MessageChooser) or getattr(found, "__abstractmethods__", False):
        message = "must be a MessageChooser that defines choose(waiting)"
        raise ConfigError([ConfigProblem("task.chooser.class", path, message)])
    return found


def _leaf(config: JobConfig) -> Callable[[frozenset[SystemStreamPartition]], Chooser]:
    own = load_chooser(config)
    job = config.context

    def make(ssps: frozenset[SystemStreamPartition]) -> Chooser:
        if own is None:
            return RoundRobin()
        chooser = own()
        chooser.init(job, ssps)
        return JobsOwn(chooser)

    return make


def _has_order(stream: StreamConfig) -> bool:
    return stream.bootstrap or stream.priority >= 0
