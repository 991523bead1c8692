"""A join of each left message with the last right message of its key that is not younger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.operators.expiry import END_OF_TIME_MS, Due, ExpiryIndex
from samzapy.operators.joins.copartitioning import key_of, sides
from samzapy.operators.joins.event_time import EventTime, TimeRules
from samzapy.operators.joins.results import Joined, Side

_IN_ORDER = TimeRules()
#: What an entry of the index is, and in which order those of one time are dealt with.
_RIGHT, _LEFT, _FORGET = "0", "1", "2"


class AsOfJoin:
    """Gives every left message once, with the right message of its key that was the newest at its event time (inclusive),
    or with None: if there is none, if it is more than `tolerance_ms` older, or if it is a tombstone. Of right messages of
    one key and time the last one counts.

    Messages of both sides wait in the order of event time until nothing can come on time that belongs before them. Then a
    right one becomes its key's newest, and a left one is given. That happens in `advance` (call it in `window`), in `add`
    if `limit` messages have come since the last scan, so that a backlog does not outrun `window`, and for all left ones in
    `finish`. Late messages of either side are dropped and counted.

    Without a tolerance the newest right message of each key is kept for good.

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
        nothing else. `limit`: entries a scan takes at most. Raises EnvironmentFailure for inputs that do not meet."""
        if limit < 1 or (tolerance_ms is not None and tolerance_ms < 0):
            raise ValueError(f"limit must be >= 1 and tolerance_ms >= 0, got {limit} and {tolerance_ms}")
        self._kind = {ssp: (_LEFT, _RIGHT)[place] for ssp, place in sides(context, streams).items()}
        self._store: KeyValueStore[str, Any] = context.get_store(store)
        self._time = EventTime(self._store, self._kind, rules)
        self._index = ExpiryIndex(self._store)
        self._tolerance_ms = tolerance_ms
        self._limit = limit
        self._added = 0
        self._late = context.task.metrics.counter("join", "late")

    def add(self, envelope: IncomingMessageEnvelope) -> list[Joined]:
        """Take one message; returns nothing, or left messages whose time has come."""
        ssp, time_ms, key = envelope.ssp, envelope.event_time, key_of(envelope.key)
        if not self._time.observe(ssp, time_ms):
            self._late.count += 1
            return []
        # The offset tells apart, and keeps in order, what one partition has of one time.
        self._index.add(time_ms, f"{self._kind[ssp]}{envelope.offset:019d}/{ssp}", [key, envelope.message])
        self._added += 1
        return self._answer() if self._added >= self._limit else []

    def advance(self) -> list[Joined]:
        """Left messages whose time has come, in the order of event time; one scan of at most `limit` entries."""
        self._time.look_at_the_clock()
        return self._answer()

    def finish(self) -> Iterator[Joined]:
        """Every left message that waits, as if nothing would come any more; for `on_end_of_stream`. What is older than the
        last of them and comes nevertheless is late."""
        ahead: list[Due] = []
        since_ms = 0
        while due := self._index.take(END_OF_TIME_MS, self._limit, since_ms):
            since_ms = due[-1].time_ms
            ahead += due
            last = max((place for place, each in enumerate(ahead) if each.name[0] == _LEFT), default=-1)
            if last >= 0:
                self._time.pass_to(ahead[last].time_ms)
                yield from self._in_order(ahead[: last + 1], ahead[last].time_ms)
                del ahead[: last + 1]
        for each in ahead:
            self._index.add(*each)

    def _answer(self) -> list[Joined]:
        self._added = 0
        before_ms, passed = self._time.current, self._time.passed
        if before_ms is None or before_ms <= passed:
            return []
        due = self._index.take(before_ms, self._limit, passed)
        if len(due) == self._limit:
            before_ms = due[-1].time_ms
        self._time.pass_to(before_ms)
        return self._in_order(due, before_ms)

    def _in_order(self, due: Iterable[Due], passed: int) -> list[Joined]:
        found = []
        for time_ms, name, kept in due:
            if name[0] == _FORGET:
                self._forget(name[1:], time_ms)
                continue
            key, value = kept
            if name[0] == _LEFT:
                found.append(self._joined(key, time_ms, value))
            else:
                self._make_newest(key, time_ms, value, passed)
        return found

    def _joined(self, key: str, time_ms: int, value: Any) -> Joined:
        newest = self._store.get(_key(key))
        if newest is None or (self._tolerance_ms is not None and time_ms - newest[0] > self._tolerance_ms):
            return Joined(key, Side(time_ms, value), None)
        return Joined(key, Side(time_ms, value), Side(*newest))

    def _make_newest(self, key: str, time_ms: int, value: Any, passed: int) -> None:
        if value is None:
            self._store.delete(_key(key))
            return
        self._store.put(_key(key), [time_ms, value])
        if self._tolerance_ms is not None:
            # Not before what the next scan begins with.
            self._index.add(max(time_ms + self._tolerance_ms, passed), f"{_FORGET}{key}")

    def _forget(self, key: str, time_ms: int) -> None:
        """Drop the newest of a key if nothing after `time_ms` can meet it."""
        newest = self._store.get(_key(key))
        if newest is not None and self._tolerance_ms is not None and newest[0] + self._tolerance_ms <= time_ms:
            self._store.delete(_key(key))


def _key(key: str) -> str:
    return f"key/{key}"
