"""A join of each left message with the last right message of its key that is not younger."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.operators.expiry import END_OF_TIME_MS, Due, ExpiryIndex
from samzapy.operators.joins.copartitioning import key_of, sides
from samzapy.operators.joins.event_time import EventTime, TimeRules
from samzapy.operators.joins.results import Joined, Side

#: One right message: [event time, value], the value None from where the key has none.
Version = list[Any]

_time_ms = itemgetter(0)
_IN_ORDER = TimeRules()


class AsOfJoin:
    """Gives every left message once, with the right message of its key that was the newest at its event time (inclusive),
    or with None: if there is none, if it is more than `tolerance_ms` older, or if it is a tombstone. Of right messages of
    one key and time the last one counts.

    A left message waits until no right one can come on time that would be nearer to it. It comes from `advance` (call it
    in `window`), from `add` if `limit` of them have come since the last scan, so that a backlog does not outrun `window`,
    and all that wait from `finish`. Late messages of either side are dropped and counted.

    The right messages of a key that are still needed are one value in the store: with a tolerance those of that time, else
    the newest and those that event time has not come to yet. Without a tolerance, each right key keeps its newest for good.

    Metrics: `join.late`, messages dropped because they came too late.
    """

    def __init__(
        self,
        context: Context,
        store: str,
        streams: tuple[SystemStream, SystemStream],
        tolerance_ms: int | None = None,
        rules: TimeRules = _IN_ORDER,
        limit: int = 10_000,
    ) -> None:
        """`streams`: the left and the right one. `store` has string keys and json (or msgpack) values and is used for
        nothing else. `limit`: entries a scan takes at most. Raises EnvironmentFailure for inputs that do not
        meet."""
        if limit < 1 or (tolerance_ms is not None and tolerance_ms < 0):
            raise ValueError(f"limit must be >= 1 and tolerance_ms >= 0, got {limit} and {tolerance_ms}")
        self._of_right = {ssp: bool(place) for ssp, place in sides(context, streams).items()}
        self._store: KeyValueStore[str, Any] = context.get_store(store)
        self._time = EventTime(self._store, self._of_right, rules)
        self._left = ExpiryIndex(self._store, "left/")
        self._right = ExpiryIndex(self._store, "right/")
        self._tolerance_ms = tolerance_ms
        self._limit = limit
        #: Where the next scan of `_right` begins. Nothing but time is lost with it, so it is not kept.
        self._forgotten = 0
        self._added = 0
        self._late = context.task.metrics.counter("join", "late")

    def add(self, envelope: IncomingMessageEnvelope) -> list[Joined]:
        """Take one message; returns nothing, or left messages whose time has come."""
        key = key_of(envelope.key)
        if not self._time.observe(envelope.ssp, envelope.event_time):
            self._late.count += 1
            return []
        if self._of_right[envelope.ssp]:
            self._keep(key, envelope.event_time, envelope.message)
        else:
            # The offset tells apart what one partition has of one time; it orders them, too.
            name = f"{envelope.offset:019d}/{envelope.ssp}"
            self._left.add(envelope.event_time, name, [key, envelope.message])
        self._added += 1
        return self._answer() if self._added >= self._limit else []

    def advance(self) -> list[Joined]:
        """Left messages whose time has come, at most `limit` of them, in the order of event time; one scan."""
        self._time.look_at_the_clock()
        return self._answer()

    def finish(self) -> Iterator[Joined]:
        """Everything that waits, as if nothing would come any more; for `on_end_of_stream`."""
        while due := self._left.take(END_OF_TIME_MS, self._limit):
            yield from map(self._joined, due)

    def _answer(self) -> list[Joined]:
        self._added = 0
        before_ms, passed = self._time.current, self._time.passed
        if before_ms is None or before_ms <= passed:
            return []
        due = self._left.take(before_ms, self._limit, passed)
        found = list(map(self._joined, due))
        if len(due) == self._limit:
            before_ms = due[-1].time_ms
        self._forget(before_ms)
        self._time.pass_to(before_ms)
        return found

    def _joined(self, due: Due) -> Joined:
        key, value = due.value
        history: list[Version] = self._store.get(_key(key)) or []
        place = bisect_right(history, due.time_ms, key=_time_ms)
        left = Side(due.time_ms, value)
        if not place:
            return Joined(key, left, None)
        time_ms, version = history[place - 1]
        if version is None or (self._tolerance_ms is not None and due.time_ms - time_ms > self._tolerance_ms):
            return Joined(key, left, None)
        return Joined(key, left, Side(time_ms, version))

    def _keep(self, key: str, time_ms: int, value: Any) -> None:
        """Put a version where its time belongs, and drop those that no left message can ask for any more."""
        history: list[Version] = self._store.get(_key(key)) or []
        place = bisect_right(history, time_ms, key=_time_ms)
        changed = [*history[:place], [time_ms, value], *history[place:]]
        self._store.put(_key(key), changed[self._first_needed(changed, self._time.passed) :])
        if self._tolerance_ms is not None:
            self._right.add(time_ms + self._tolerance_ms, key)

    def _first_needed(self, history: list[Version], passed: int) -> int:
        """Where the versions begin that a left message of `passed` or later can meet."""
        newest = bisect_right(history, passed, key=_time_ms) - 1
        if newest >= 0 and self._tolerance_ms is not None and history[newest][0] + self._tolerance_ms < passed:
            newest += 1
        return max(newest, 0)

    def _forget(self, passed: int) -> None:
        """Drop versions that are too old for every left message from `passed` on, of keys that get no new ones, too."""
        if self._tolerance_ms is None:
            return
        due = self._right.take(passed, self._limit, self._forgotten)
        for key in dict.fromkeys(name for _, name, _ in due):
            history: list[Version] = self._store.get(_key(key)) or []
            kept = history[self._first_needed(history, passed) :]
            if kept:
                self._store.put(_key(key), kept)
            else:
                self._store.delete(_key(key))
        self._forgotten = passed if len(due) < self._limit else due[-1].time_ms


def _key(key: str) -> str:
    return f"key/{key}"
