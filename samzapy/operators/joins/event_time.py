"""How far event time has come for one task, kept in its store; and who is late."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.watermarks import Watermarks

_KEY = "event-time"


@dataclass(frozen=True)
class TimeRules:
    """How event time is told from messages.

    `lateness_ms` (default 0): how far the messages of one partition may be out of order. `idle_ms` (default None: never):
    a partition that has brought nothing for so long does not hold the others back until it does. `clock` is what idle
    partitions are told by.
    """

    lateness_ms: int = 0
    idle_ms: int | None = None
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        if self.lateness_ms < 0 or (self.idle_ms is not None and self.idle_ms < 1):
            raise ValueError(f"lateness_ms must be >= 0 and idle_ms >= 1, got {self.lateness_ms} and {self.idle_ms}")


class EventTime:
    """Marks of the task's partitions, in the entry `event-time` of a store.

    A partition's mark is its highest event time so far less `lateness_ms`. A message is late if it is older than the mark of its own partition: that depends on nothing but the partition,
    whatever has been read of the others. `current` is the least of the marks, so what expires by it can meet no message
    that is not late.

    A partition without messages holds `current` back unless there is an `idle_ms`. Then one that was only behind may be
    taken for idle: what expired in the meantime makes its older messages late, and the output depends on when that was.
    Set it well above the longest backlog, or leave it out.
    """

    def __init__(
        self,
        store: KeyValueStore[str, Any],
        partitions: Iterable[SystemStreamPartition],
        rules: TimeRules,
    ) -> None:
        """`store` has string keys and json (or msgpack) values."""
        self._store = store
        self._names = {ssp: str(ssp) for ssp in partitions}
        self._lateness_ms = rules.lateness_ms
        self._idle_s = None if rules.idle_ms is None else rules.idle_ms / 1000
        self._clock = rules.clock
        self._heard: set[SystemStreamPartition] = set()
        self._aside: set[SystemStreamPartition] = set()
        self._heard_at = dict.fromkeys(self._names, rules.clock.monotonic())
        self._kept: dict[str, Any] | None = None
        self._look()

    @property
    def current(self) -> int | None:
        """Nothing older will come on time; None while a partition has brought nothing yet."""
        self._look()
        return self._watermarks.current

    @property
    def passed(self) -> int:
        """Up to where (exclusive) everything that was due has been dealt with."""
        return self._look()["passed"]  # type: ignore[no-any-return]

    def pass_to(self, time_ms: int) -> None:
        """What was due before `time_ms` has been dealt with."""
        kept = self._look()
        if time_ms > kept["passed"]:
            self._keep({**kept, "passed": time_ms})

    def observe(self, ssp: SystemStreamPartition, time_ms: int) -> bool:
        """Take the event time of a message (ms since 1970); returns whether it is on time.

        Raises ValueError for a time before 1970, which is how a system says that it keeps none, and KeyError for a
        partition that was not named.
        """
        if time_ms < 0:
            raise ValueError(f"event time must be >= 0 ms since 1970, got {time_ms}")
        kept, name = self._look(), self._names[ssp]
        mark = kept["marks"].get(name)
        self._heard.add(ssp)
        if ssp in self._aside:
            self._aside.discard(ssp)
            self._watermarks.advance(ssp, time_ms - self._lateness_ms if mark is None else mark)
        if time_ms < kept["passed"] or (mark is not None and time_ms < mark):
            return False
        if mark is None or time_ms - self._lateness_ms > mark:
            mark = time_ms - self._lateness_ms
            self._watermarks.advance(ssp, mark)
            self._keep({**kept, "marks": {**kept["marks"], name: mark}})
        return True

    def look_at_the_clock(self) -> None:
        """Set aside partitions that have been idle for too long."""
        if self._idle_s is None:
            return
        now = self._clock.monotonic()
        self._heard_at.update(dict.fromkeys(self._heard, now))
        self._heard.clear()
        for ssp, heard_at in self._heard_at.items():
            if ssp not in self._aside and now - heard_at >= self._idle_s:
                self._aside.add(ssp)
                self._watermarks.set_aside(ssp)

    def _keep(self, kept: dict[str, Any]) -> None:
        self._store.put(_KEY, kept)
        self._kept = kept

    def _look(self) -> dict[str, Any]:
        """What the store holds. Another object than the last one was loaded, or is what a failed message went back to."""
        kept = self._store.get(_KEY) or _NOTHING
        if kept is not self._kept:
            self._kept = kept
            marks = {ssp: kept["marks"][name] for ssp, name in self._names.items() if name in kept["marks"]}
            self._watermarks = Watermarks(self._names, marks)
            for ssp in self._aside:
                self._watermarks.set_aside(ssp)
        return kept


_NOTHING: dict[str, Any] = {"marks": {}, "passed": 0}
