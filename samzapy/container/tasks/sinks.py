"""The sinks of one task: opens them at its start, commits them before its checkpoint, takes failed messages back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from samzapy.api.collector import Sink, TaskAttempt
from samzapy.api.context import MetricsRegistry
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.streams import StreamConfig
from samzapy.container.errors.user_failures import task_failed
from samzapy.errors import EnvironmentFailure, SamzapyError

T = TypeVar("T")

logger = logging.getLogger(__name__)


class TaskSinks:
    """The sinks of one task; without sinks every call does nothing. An exception of a sink becomes TaskFailed, unless
    it is an error of samzapy."""

    def __init__(self, task_name: str) -> None:
        self._task_name = task_name
        self._sinks: tuple[Sink, ...] = ()
        self._unread: set[str] = set()

    def add(self, sinks: Iterable[Sink]) -> None:
        self._sinks = (*self._sinks, *sinks)

    @property
    def registered(self) -> bool:
        return bool(self._sinks)

    def open(
        self,
        attempt: TaskAttempt,
        offsets: dict[SystemStreamPartition, int],
        committed: Mapping[SystemStreamPartition, int],
        *,
        free: Collection[SystemStreamPartition],
        may_be_behind: bool,
        streams: Callable[[SystemStream], StreamConfig],
    ) -> int:
        """Take the sinks over from earlier attempts, and set the task's `offsets` by theirs; returns the number of
        `committed` offsets that a sink lacks.

        1. A partition that is not committed starts at the least of the sinks' offsets, not at the configured default.
        2. A committed partition starts at its checkpoint, and no sink may be behind that, or rows would be missing.
           At-most-once is the exception (`may_be_behind`): its checkpoint goes first, so a crash loses messages for the
           sink as well.
        3. The partitions `free` start where `init` or the configuration says, independent of the sinks.
        4. A sink commits before the checkpoint. So a sink that lacks an offset of the checkpoint keeps no offsets (and
           repeats rows), or it is not the sink of the earlier inputs.

        Raises EnvironmentFailure for a sink that is behind; `streams` are the settings of the inputs.
        """
        held_by = [(sink, self._call(sink, "open", sink.open, attempt)) for sink in self._sinks]
        lacking = sum(_lacking(attempt, sink, committed, held) for sink, held in held_by)
        for ssp in offsets:
            if ssp in free:
                continue
            known = [(held[ssp], sink) for sink, held in held_by if ssp in held]
            if not known:
                continue
            least, sink = min(known, key=lambda each: each[0])
            if ssp not in committed:
                offsets[ssp] = least
            elif least < committed[ssp] and not may_be_behind:
                raise EnvironmentFailure(
                    _behind(attempt, sink, streams(ssp.system_stream), f"{ssp} up to offset {least}", committed[ssp])
                )
        return lacking

    def commit(self, offsets: Mapping[SystemStreamPartition, int]) -> None:
        for sink in self._sinks:
            self._call(sink, "commit", sink.commit, offsets)

    def forget(self, envelope: IncomingMessageEnvelope) -> None:
        for sink in self._sinks:
            self._call(sink, "forget", sink.forget, envelope)

    def marks(self) -> Sequence[int | None]:
        """The place in each sink where the rows of the next batch begin; valid until a commit."""
        return [self._call(sink, "mark", sink.mark) for sink in self._sinks]

    def back_to(self, marks: Sequence[int | None], batch: Iterable[IncomingMessageEnvelope]) -> None:
        for sink, mark in zip(self._sinks, marks, strict=True):
            if mark is not None:
                self._call(sink, "back_to", sink.back_to, mark)
                continue
            for envelope in batch:
                self._call(sink, "forget", sink.forget, envelope)

    def full(self) -> bool:
        """Whether the task should commit early, because a sink holds many rows."""
        return any(self._call(sink, "full", sink.full) for sink in self._sinks)

    def publish(self, metrics: MetricsRegistry) -> None:
        """Set the sinks' own gauges. The gauges of a sink that raises stay as they are. The failure is counted, and
        logged once for each sink."""
        for sink in self._sinks:
            try:
                for name, value in sink.metrics().items():
                    metrics.gauge(self._task_name, f"sink.{sink.name}.{name}").set(value)
            except Exception as cause:  # noqa: BLE001  # the commit is durable already
                metrics.counter("metrics", "source-failures").inc()
                if sink.name not in self._unread:
                    self._unread.add(sink.name)
                    logger.warning("%s", task_failed(self._task_name, f"metrics of sink '{sink.name}'", cause))

    def close(self) -> None:
        """Release the sinks; uncommitted rows are void. Closes all of them, then raises the first failure."""
        failures = []
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as cause:  # noqa: BLE001  # the other sinks must be closed as well
                failures.append(task_failed(self._task_name, f"close of sink '{sink.name}'", cause))
        if failures:
            raise failures[0]

    def _call(self, sink: Sink, name: str, method: Callable[..., T], *arguments: object) -> T:
        try:
            return method(*arguments)
        except SamzapyError:
            raise
        except Exception as cause:
            raise task_failed(self._task_name, f"{name} of sink '{sink.name}'", cause) from cause


def _lacking(
    attempt: TaskAttempt,
    sink: Sink,
    committed: Mapping[SystemStreamPartition, int],
    held: Mapping[SystemStreamPartition, int],
) -> int:
    without = sorted(committed.keys() - held.keys())
    if without:
        logger.warning(
            "%s: sink '%s' has no offset of %s, the checkpoint has: it keeps none and may repeat rows, or it is new "
            "and lacks those of earlier inputs",
            attempt,
            sink.name,
            ", ".join(map(str, without)),
        )
    return len(without)


def _behind(attempt: TaskAttempt, sink: Sink, stream: StreamConfig, held: str, committed: int) -> str:
    return (
        f"{attempt}: sink '{sink.name}' has {held}, the checkpoint says {committed}: the rows between them are missing "
        f"(was the sink restored from a copy?); to process the inputs again, run the job once with "
        f"{stream.from_oldest}; to continue without those rows, delete the sink's offset of this partition"
    )
