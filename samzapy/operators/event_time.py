"""How far event time has come in a task: kept in a store of windows or of a join, by partition.

The mark of a partition is its newest event time. It is read from the store and written there with each message, so it is
what was committed with the message, in whatever order partitions take turns, and is taken back with a message that fails.
What is late is decided by the message's own partition (and by what was over before): the least of all marks, which
decides what is closed, is never ahead of it, unless an idle partition was left out.

    m|<partition>    time    the newest event time of a partition, `system.stream[3]`
    clock            time    up to where event time has come
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStreamPartition
from samzapy.watermarks import Watermarks

#: Event times above are taken for micro- or nanoseconds.
LATEST_MS = 9 * 10**13

_CLOCK = "clock"


class _Source:
    """A partition: where its mark is, whether it was heard of since the last look, and when it was, then (seconds)."""

    __slots__ = ("entry", "heard", "idle", "since", "ssp")

    def __init__(self, ssp: SystemStreamPartition, now: float) -> None:
        self.ssp = ssp
        self.entry = f"m|{ssp}"
        self.heard = False
        self.idle = False
        self.since = now


class EventTime:
    """The marks of a task's partitions, and what has come of them.

    `over` is up to where event time has come when somebody last looked; it never goes back, in a restart neither.
    """

    def __init__(
        self,
        store: KeyValueStore[str, Any],
        ssps: Iterable[SystemStreamPartition],
        now: float,
        idle_s: float | None,
        whose: str,
        remedy: str = "",
    ) -> None:
        """`now` is the monotonic time, in seconds. A partition that is silent for `idle_s` does not hold the others back,
        and when all are, event time goes on as time does; None: they wait for it however long. `whose` and `remedy` are
        said of messages that are refused: who needs an event time (in the plural), and what to do about it."""
        self._store = store
        self._get, self._put = store.get, store.put
        self._idle_s = idle_s
        self._whose, self._remedy = whose, remedy
        self._sources = {ssp: _Source(ssp, now) for ssp in sorted(ssps)}
        self._last = next(iter(self._sources.values()))
        self._marks = self._kept()
        self.over = 0
        self.recall()

    def recall(self) -> None:
        """Take `over` from the store: a message in which somebody looked may have failed, and been taken back there."""
        self.over = self._get(_CLOCK) or 0

    def hear(self, envelope: IncomingMessageEnvelope, time: int) -> int:
        """A message of this event time has come; returns its horizon: what was over then is closed to it.

        Raises ValueError for an event time that is none, and for a partition that was not named.
        """
        source = self._last
        if envelope.ssp is not source.ssp:
            source = self._source(envelope)
        source.heard = True
        if not 0 <= time <= LATEST_MS:
            self.refuse(envelope, time)
        mark: int | None = self._get(source.entry)
        if mark is None or time > mark:
            self._put(source.entry, time)
            mark = time
        over = self.over
        return mark if mark > over else over  # noqa: FURB136  # half the time of max

    def look(self, now: float) -> bool:
        """Bring `over` up to date; `now` is the monotonic time. Returns whether it has moved."""
        self.recall()
        # Anew, as a mark may have been taken back; and all at once: who comes back from being idle counts before anybody
        # moves on.
        self._marks = self._kept()
        marks = self._marks.marks
        for source in self._sources.values():
            if source.heard and source.ssp in marks:  # not: its only message has failed and was taken back
                source.heard = source.idle = False
                source.since = now
            elif self._idle_s is not None and now - source.since >= self._idle_s:
                source.idle = True
            if source.idle:
                self._marks.set_aside(source.ssp)
        current = self._marks.current
        if current is None:
            return False
        if all(source.idle for source in self._sources.values()):
            silent_s = now - max(source.since for source in self._sources.values())
            current = max(marks.values()) + int(silent_s * 1000)
        return self.end(current)

    def _kept(self) -> Watermarks[SystemStreamPartition]:
        """The marks that the store has."""
        entries = self._store.get_all([source.entry for source in self._sources.values()])
        marks = {ssp: entries[source.entry] for ssp, source in self._sources.items()}
        return Watermarks(self._sources, {ssp: mark for ssp, mark in marks.items() if mark is not None})

    def end(self, time: int) -> bool:
        """All that ends at `time` or before is over; returns whether that is news."""
        if time <= self.over:
            return False
        self.over = time
        self._put(_CLOCK, time)
        return True

    @property
    def newest(self) -> int:
        """The newest event time there was, or what idle time has made of it."""
        marks: dict[Any, int] = self._marks.marks
        return max(self.over, *marks.values()) if marks else self.over

    @property
    def holding(self) -> SystemStreamPartition | None:
        """The partition that held event time back when somebody last looked; None if all were idle."""
        return self._marks.holding

    def refuse(self, envelope: IncomingMessageEnvelope, time: object) -> None:
        """Say what is wrong with an event time. Raises ValueError."""
        raise ValueError(
            f"{envelope.position}: event time {time!r}: {self._whose} need milliseconds since 1970, 0 to {LATEST_MS}"
            f"{self._remedy}"
        )

    def _source(self, envelope: IncomingMessageEnvelope) -> _Source:
        source = self._sources.get(envelope.ssp)
        if source is None:
            known = ", ".join(sorted({str(ssp.system_stream) for ssp in self._sources}))
            raise ValueError(f"{envelope.position}: the {self._whose} take messages of {known}")
        source.ssp = envelope.ssp
        self._last = source
        return source
