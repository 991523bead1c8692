"""Looks every few seconds, in a thread of its own, where the inputs of a container end, and copies its committed
positions to a consumer group.

1. One request for all partitions of a system, which the client splits by broker. A broker that does not answer holds up
   this thread alone. Other threads see the age of the last answer, so a container that cannot reach its broker says so.
   The clients of a failed poll are closed; the next poll connects anew.
2. The oldest unprocessed record is younger than the last processed record, and came after the last poll at which the
   partition ended before it. Its age counts from the later of the two; without either, from the first poll. The time of
   a processed record is compared with the wall clock only once, so setting the clock does not change the age in a
   partition that stands still.
3. No processed message passes the records that are not messages (the ends of transactions). So the run loop notes its
   consumers' positions whenever it has nothing to do.
4. The positions are taken before the ends. So no position is newer than the end next to it, and a lag is never too
   small.
5. The consumer group is for tools that show lag. It is a copy: nothing reads it, and a failure is one line in the log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import final

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import STALE_AFTER, Clock, Measured
from samzapy.container.supervision.outage import OUTAGES, Outages
from samzapy.container.tasks.task_instance import TaskInstance
from samzapy.errors import RetriableError, SamzapyError, Unreachable
from samzapy.job.lease import PartitionLag
from samzapy.system.clients import SystemClients

logger = logging.getLogger(__name__)

#: Seconds that the end of a container waits for the last copy of its positions.
LAST_S = 2.0
#: Looks of one partition that are remembered; when there are more, every second one is dropped.
_MAX_ENDS = 64

_SILENT = "broker unreachable"
Positions = Mapping[SystemStreamPartition, int]


@dataclass(frozen=True)
class Progress:
    """The progress of a container, by partition: the next offsets to process, the offsets of its checkpoints, and the
    times of the last processed records in milliseconds since 1970."""

    positions: Positions = field(default_factory=dict)
    committed: Positions = field(default_factory=dict)
    processed_ms: Positions = field(default_factory=dict)


def progress_of(tasks: Iterable[TaskInstance], committed_of: Mapping[str, Positions], caught_up: Positions) -> Progress:
    """The progress of the tasks; from any thread. A broadcast partition is as far as the task that is furthest
    behind."""
    positions: dict[SystemStreamPartition, int] = {}
    committed: dict[SystemStreamPartition, int] = {}
    processed_ms: dict[SystemStreamPartition, int] = {}
    for task in tasks:
        for ssp, offset in list(task.offsets.items()):
            positions[ssp] = min(offset, positions.get(ssp, offset))
        processed_ms.update(task.processed_ms)
    for offsets in list(committed_of.values()):
        for ssp, offset in offsets.items():
            committed[ssp] = min(offset, committed.get(ssp, offset))
    return Progress({ssp: max(at, caught_up.get(ssp, at)) for ssp, at in positions.items()}, committed, processed_ms)


class EndsSeen:
    """The ends of one partition, each with the time when it was last seen, and the last processed record. `now_ms` is
    the monotonic time in milliseconds."""

    def __init__(self) -> None:
        self._began = 0
        self._recent_ends: list[tuple[int, int]] = []
        self._processed: tuple[int, int] | None = None

    def add(self, now_ms: int, end: int) -> None:
        ends = self._recent_ends
        if not ends:
            self._began = now_ms
        if ends and ends[-1][1] == end:
            ends[-1] = now_ms, end
            return
        ends.append((now_ms, end))
        if len(ends) > _MAX_ENDS:
            del ends[1:-1:2]

    def note(self, now_ms: int, processed_ms: int, wall_ms: int) -> None:
        """The last processed record has the time `processed_ms`; this time and `wall_ms`, now, are milliseconds since
        1970."""
        if self._processed is None or self._processed[0] != processed_ms:
            self._processed = processed_ms, now_ms - max(0, wall_ms - processed_ms)

    def age_ms(self, position: int, now_ms: int) -> int:
        """The longest time in milliseconds that the record at `position` can have waited. Call `add` first."""
        known = [at for at, end in self._recent_ends if end <= position][-1:]
        if self._processed is not None:
            known.append(self._processed[1])
        return now_ms - max(known, default=self._began)


@final
class LagWatch:
    """A context that keeps the lag of each input partition of a container, and a copy of its positions."""

    def __init__(
        self,
        ssps: Collection[SystemStreamPartition],
        clients: SystemClients,
        clock: Clock,
        period_s: float = 5.0,
        group: str = "",
        outages: Outages = OUTAGES,
    ) -> None:
        """Connects to nothing yet. `clients`: for this watch alone. `period_s`: seconds between two polls. `group`: the
        consumer group for the positions, empty for none. `outages`: where a lag that is unknown for a lack of answers
        is logged."""
        self._ssps = sorted(ssps)
        self._clients = clients
        self._clock = clock
        self._group = group
        self._period_s, self.outages = period_s, outages
        self._progress: Callable[[], Progress] = Progress
        self._seen: dict[SystemStreamPartition, EndsSeen] = {ssp: EndsSeen() for ssp in self._ssps}
        self._lags: Measured[dict[str, PartitionLag]] | None = None
        self._open: tuple[str, ...] = ()
        self._mirrored: dict[SystemStreamPartition, int] = {}
        self._warned = False
        self._measured_at = clock.monotonic()
        self._unknown_since: float | None = None
        self._cause: Exception | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samzapy-lag", daemon=True)

    def follow(self, progress: Callable[[], Progress]) -> None:
        self._progress = progress

    def __enter__(self) -> LagWatch:
        if self._ssps:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._thread.ident is not None:
            # A broker that does not answer is left to the thread, which ends with the process.
            self._thread.join(LAST_S)

    def take(self) -> Measured[dict[str, PartitionLag]] | None:
        """The lag of each partition; None if there was no poll since the last call. Logs when the lag becomes unknown,
        and when it is known again. One caller at a time."""
        if not self._ssps:
            return Measured({}, self._clock.monotonic())
        self._note_age()
        lags, self._lags = self._lags, None
        return lags

    def _note_age(self) -> None:
        age_s, since = self.age_s, self._unknown_since
        is_stale = age_s > STALE_AFTER * self._period_s
        if is_stale:
            text = f"The lag of the inputs is unknown: not measured for {age_s:.0f} s ({self.trouble})"
            if self.trouble == _SILENT:
                self.outages.failing(self, text)
            elif since is None:
                logger.warning("%s", text)
            self._unknown_since = self._measured_at
        elif since is not None:
            self._unknown_since = None
            if not self.outages.answered(self):
                logger.warning("The lag of the inputs is known again, after %.0f s", self._measured_at - since)

    @property
    def age_s(self) -> float:
        """Seconds since the last successful poll began, or since this watch was made; 0 without inputs."""
        return 0.0 if not self._ssps else self._clock.monotonic() - self._measured_at

    @property
    def silent_s(self) -> float:
        return max(0.0, self.age_s - self._period_s)

    @property
    def trouble(self) -> str:
        """The reason why the last poll has no answer, in one line; valid while a poll is overdue."""
        cause = self._cause
        if cause is None or isinstance(cause, Unreachable | RetriableError):
            return _SILENT
        text = f"{cause}" if isinstance(cause, SamzapyError) else f"{type(cause).__name__}: {cause}"
        return f"the ends of the inputs are not known: {text}"

    @property
    def held_by_transactions(self) -> tuple[str, ...]:
        """The partitions that, at the last poll, could not be read further before an open transaction ends."""
        return self._open if self._unknown_since is None else ()

    def _run(self) -> None:
        try:
            while not self._closed.wait(self._period_s):
                self.poll()
            with suppress(Exception):
                self._mirror(self._progress().committed)
        finally:
            close_anyway(self._clients, "lag")

    def poll(self) -> None:
        """One poll. Whatever it raises is remembered, and the next poll asks again, with other clients."""
        began, progress = self._clock.monotonic(), self._progress()
        try:
            ends = self._clients.ends(self._ssps)
            behind = [ssp for ssp, end in ends.items() if progress.positions.get(ssp, end) < end]
            readable = self._clients.ends(behind, committed=True) if behind else {}
        except Exception as cause:  # a container without polls would seem to stall
            self._cause = cause
            logger.debug("The ends of the inputs are not known: %s", cause, exc_info=True)
            close_anyway(self._clients, "lag")
            return
        lags = self._measured(ends, progress)
        self._cause, self._measured_at = None, began
        self._lags = Measured(lags, began)
        self._open = tuple(
            f"{ssp}@{progress.positions[ssp]}"
            for ssp, end in readable.items()
            if end <= progress.positions[ssp] < ends[ssp]
        )
        self._copy(progress.committed)

    def _copy(self, committed: Positions) -> None:
        try:
            self._mirror(committed)
        except (RetriableError, Unreachable) as cause:
            logger.debug("The positions were not copied to the consumer group '%s': %s", self._group, cause)
        except SamzapyError as cause:
            text = "The positions are not copied to the consumer group '%s' (job.offsets.mirror): %s"
            logger.log(logging.DEBUG if self._warned else logging.WARNING, text, self._group, cause)
            self._warned = True

    def _measured(self, ends: Positions, progress: Progress) -> dict[str, PartitionLag]:
        now_ms, wall_ms = round(self._clock.monotonic() * 1000), self._clock.wall_ms()
        result: dict[str, PartitionLag] = {}
        for ssp, end in ends.items():
            seen = self._seen[ssp]
            seen.add(now_ms, end)
            if (processed_ms := progress.processed_ms.get(ssp, -1)) > 0:
                seen.note(now_ms, processed_ms, wall_ms)
            position = progress.positions.get(ssp)
            if position is not None:
                lag = max(0, end - position)
                age_ms = seen.age_ms(position, now_ms) if lag else 0
                result[str(ssp)] = PartitionLag(position, end, lag, age_ms)
        return result

    def _mirror(self, committed: Positions) -> None:
        changed = {ssp: offset for ssp, offset in committed.items() if self._mirrored.get(ssp) != offset}
        if not self._group or not changed:
            return
        self._clients.mirror(self._group, changed)
        self._mirrored.update(changed)


def close_anyway(clients: SystemClients, of: str) -> None:
    """Close the clients of an observer, whose failures never end a job."""
    try:
        clients.close()
    except Exception as cause:  # noqa: BLE001  # whatever it is
        logger.debug("Closing the clients of the %s: %s", of, cause)
