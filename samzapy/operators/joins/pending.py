"""Keeps the messages that wait for event time in the store of a join, and finds those that come too late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.operators.event_time import Duration, EventTime, milliseconds
from samzapy.operators.expiry import END_OF_TIME_MS, Due, ExpiryIndex

_PASSED = "passed"


@dataclass(frozen=True)
class TimeRules:
    """How a join reads event time from messages. Durations are milliseconds or text such as "5m" (see `Duration`).

    `lateness` (default 0): how far the messages of one partition may be out of order. A message is late if it is older
    than the newest of its own partition by more than that. It does not matter how partitions take turns.

    `idle` (default None: never): for how long, in processing time, a partition may be silent before the others no longer
    wait for it. When all partitions are idle, event time goes on with the clock. A partition that is only behind can look
    idle: what expires in the meantime makes its older messages late, and the output depends on that moment. Set it
    well above the longest backlog, or leave it out.

    Raises ValueError for anything that is no duration.
    """

    lateness: Duration = 0
    idle: Duration | None = None

    def __post_init__(self) -> None:
        milliseconds(self.lateness, "lateness")
        if self.idle is not None:
            milliseconds(self.idle, "idle", 1)

    @property
    def lateness_ms(self) -> int:
        """`lateness` in milliseconds."""
        return milliseconds(self.lateness, "lateness")

    @property
    def idle_s(self) -> float | None:
        """`idle` in seconds."""
        return None if self.idle is None else milliseconds(self.idle, "idle", 1) / 1000


#: Each partition in the order of event time, and none of them ever left out.
IN_ORDER = TimeRules()


class PendingMessages:
    """Entries of one join's store that wait until nothing can come on time that is older than they are.

    The store holds event time (see `EventTime`), the index (`due/`), and `passed`: before that time (exclusive) all due
    entries have been taken.
    """

    def __init__(
        self,
        context: Context,
        store: str,
        partitions: Iterable[SystemStreamPartition],
        rules: TimeRules,
        limit: int,
        clock: Clock,
    ) -> None:
        """`partitions`: those of the joined inputs. `limit`: entries that one scan takes at most.

        Raises ValueError for a limit below 1, StoreError for a store that does not keep its keys in the order of their text.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        self.store: KeyValueStore[str, Any] = context.get_store(store)
        self._clock = clock
        self._time = EventTime(self.store, partitions, clock.monotonic(), rules.idle_s, "joins")
        self._lateness_ms = rules.lateness_ms
        self._index = ExpiryIndex(self.store)
        self._limit = limit
        self._added = 0
        self._late = context.task.metrics.counter("join", "late")

    def on_time(self, envelope: IncomingMessageEnvelope) -> bool:
        """Take the event time of a message; returns False for a late one, which is counted.

        Raises ValueError for a message without a proper event time.
        """
        if not self._added:
            # The last scan may have been part of a message that failed and was taken back.
            self._time.recall()
        time_ms = envelope.event_time
        if time_ms < self._time.hear(envelope, time_ms) - self._lateness_ms:
            self._late.count += 1
            return False
        return True

    def add(self, time_ms: int, name: str, value: Any = True) -> bool:
        """Let an entry wait until `time_ms`; returns whether as many as one scan takes have come since the last one."""
        self.keep(time_ms, name, value)
        self._added += 1
        return self._added >= self._limit

    def keep(self, time_ms: int, name: str, value: Any = True) -> None:
        """Let an entry wait without counting it as one that has come: no new message has brought it."""
        self._index.add(time_ms, name, value)

    def take(self) -> tuple[list[Due], int]:
        """Remove and return the due entries, the oldest first; one scan. Also returns the time before which nothing is
        left."""
        self._added = 0
        self._time.look(self._clock.monotonic())
        passed: int = self.store.get(_PASSED) or 0
        before_ms = self._time.over - self._lateness_ms
        if before_ms <= passed:
            return [], passed
        due = self._index.take(before_ms, self._limit, passed)
        if len(due) == self._limit:
            before_ms = due[-1].time_ms
        self._pass_to(before_ms)
        return due, before_ms

    def take_any(self, since_ms: int = 0) -> list[Due]:
        """Remove and return waiting entries, due or not, from `since_ms` on; one scan, empty if nothing is left."""
        return self._index.take(END_OF_TIME_MS, self._limit, since_ms)

    def end(self, time_ms: int) -> None:
        """Everything before `time_ms` has been processed, whatever event time is: older messages are late from now on."""
        self._time.end(time_ms + self._lateness_ms)
        self._pass_to(time_ms)

    def _pass_to(self, time_ms: int) -> None:
        if time_ms > (self.store.get(_PASSED) or 0):
            self.store.put(_PASSED, time_ms)
