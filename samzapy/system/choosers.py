"""The choosers, and the order in which they are stacked.

A chooser chooses among partitions that have records waiting. `Batching`, `Tiered` and `RoundRobin` follow Samza's
choosers of these names; `JobsOwn` checks the answers of the job's own chooser.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import Choice, MessageChooser, WaitingRecords
from samzapy.config.job import JobConfig
from samzapy.config.streams import StreamConfig
from samzapy.config.streams.stream import BOOTSTRAP_PRIORITY
from samzapy.config.task import ChooserConfig
from samzapy.errors import ConfigError, SamzapyError, TaskFailed
from samzapy.plugins import PluginError, load_class

#: The waiting records by partition, the longest unserved first.
Waiting = Mapping[SystemStreamPartition, WaitingRecords]


class Chooser(Protocol):
    """Chooses among partitions that have something waiting."""

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The next choice, of `most` records at most; None for nothing now. `waiting` is not empty."""


class RoundRobin:
    """The partition that has waited longest for its turn, with everything it has: Samza's RoundRobinChooser."""

    __slots__ = ()

    def choose(self, waiting: Waiting, most: int) -> Choice:
        """The first partition."""
        ssp = next(iter(waiting))
        return Choice(ssp, min(len(waiting[ssp]), most))


class JobsOwn:
    """Checks the answers of the job's own MessageChooser. Raises TaskFailed, naming it."""

    __slots__ = ("_chooser", "_name")

    def __init__(self, chooser: MessageChooser) -> None:
        self._chooser = chooser
        self._name = type(chooser).__name__

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The choice of the job's chooser."""
        try:
            choice = self._chooser.choose(waiting)
        except SamzapyError:
            raise
        except Exception as cause:
            raise TaskFailed(f"task.chooser.class: {self._name}: {type(cause).__name__}: {cause}") from cause
        if choice is None:
            return None
        if not isinstance(choice, Choice) or choice.ssp not in waiting or choice.records < 1:
            raise TaskFailed(
                f"task.chooser.class: {self._name} chose {choice!r}: expected a Choice of at least 1 record of a "
                "partition that waits"
            )
        return Choice(choice.ssp, min(choice.records, len(waiting[choice.ssp]), most))


class Tiered:
    """Asks the chooser of the highest priority that has something; a lower one only if that one chooses nothing.

    Samza's TieredPriorityChooser.
    """

    __slots__ = ("_choosers", "_priority_of")

    def __init__(self, priority_of: Mapping[SystemStreamPartition, int], choosers: Mapping[int, Chooser]) -> None:
        """`choosers` by priority, one for every value of `priority_of`."""
        self._priority_of = priority_of
        self._choosers = choosers

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The choice of the highest tier that makes one."""
        priority_of = self._priority_of
        for priority in sorted({priority_of[ssp] for ssp in waiting}, reverse=True):
            tier = {ssp: records for ssp, records in waiting.items() if priority_of[ssp] == priority}
            choice = self._choosers[priority].choose(tier, most)
            if choice is not None:
                return choice
        return None


class Batching:
    """Stays with the partition that was chosen for `size` messages, as long as it has any: Samza's BatchingChooser.

    When it has none left, the wrapped chooser is asked at once; nothing is waited for.
    """

    __slots__ = ("_left", "_preferred", "_size", "_wrapped")

    def __init__(self, wrapped: Chooser, size: int) -> None:
        self._wrapped = wrapped
        self._size = size
        self._preferred: SystemStreamPartition | None = None
        self._left = 0

    def choose(self, waiting: Waiting, most: int) -> Choice | None:
        """The preferred partition, or a new one that is preferred from now on."""
        preferred = self._preferred
        if preferred is not None and self._left > 0 and preferred in waiting:
            records = min(self._left, len(waiting[preferred]), most)
            self._left -= records
            return Choice(preferred, records)
        choice = self._wrapped.choose(waiting, min(self._size, most))
        if choice is not None:
            self._preferred, self._left = choice.ssp, self._size - choice.records
        return choice


def chooser_of(config: JobConfig, ssps: Iterable[SystemStreamPartition]) -> Chooser | None:
    """Batching( Tiered( the job's own chooser, or turns ) ), each only if it is configured. None if the job configures
    no order among these partitions: then messages come as they arrive. Raises ConfigError."""
    streams, settings = {ssp: config.stream(ssp.system_stream) for ssp in ssps}, config.task.chooser
    if settings == ChooserConfig() and not any(item.bootstrap or item.priority >= 0 for item in streams.values()):
        return None
    own = load_chooser(config)
    priority_of = {ssp: _priority(stream) for ssp, stream in streams.items()}
    choosers: dict[int, Chooser] = {}
    for priority in set(priority_of.values()):
        choosers[priority] = RoundRobin()
        if own is not None:
            chooser = own()
            chooser.init(config.context, frozenset(ssp for ssp in streams if priority_of[ssp] == priority))
            choosers[priority] = JobsOwn(chooser)
    result = Tiered(priority_of, choosers) if len(choosers) > 1 else next(iter(choosers.values()))
    return Batching(result, settings.batch_size) if settings.batch_size > 0 else result


def load_chooser(config: JobConfig) -> type[MessageChooser] | None:
    """The class that `task.chooser.class` names; None for turns. Raises ConfigError."""
    path = config.task.chooser.chooser_class
    if path is None:
        return None
    try:
        result = load_class(path)
    except PluginError as cause:
        raise ConfigError.of("task.chooser.class", path, str(cause)) from cause
    if not issubclass(result, MessageChooser) or getattr(result, "__abstractmethods__", False):
        message = "must be a MessageChooser that defines choose(waiting)"
        raise ConfigError.of("task.chooser.class", path, message)
    return result


def _priority(stream: StreamConfig) -> int:
    """A stream's priority: Samza's default is 0, and the highest there is for bootstrap streams."""
    if stream.priority >= 0:
        return stream.priority
    return BOOTSTRAP_PRIORITY if stream.bootstrap else 0
