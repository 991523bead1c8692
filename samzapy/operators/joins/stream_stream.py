"""Joins two streams within an interval of event time, and returns the messages without a partner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.errors import StoreError
from samzapy.operators.columns import Messages, columns, runs_of_partitions
from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.joins.pending import IN_ORDER, PendingMessages, TimeRules
from samzapy.operators.joins.values import (
    Joined,
    Side,
    TypedValues,
    check_keys,
    joined_of,
    key_of,
    side_of,
    sides,
    typed_values,
)

#: One waiting message: [event time, whether it has met a partner, value]; see `TypedValues` for one of a class.
Waiting = list[Any]
#: The waiting messages of a key in one stretch of event time: the left ones, the right ones.
Bucket = list[list[Waiting]]
_EMPTY: Bucket = [[], []]

_LEFT, _RIGHT = 0, 1

#: The most buckets per message that a batch reads together.
_BUCKETS_A_MESSAGE = 4

#: The entry of the store with the interval: [before, after], in milliseconds.
_INTERVAL = "within"

_has_met = itemgetter(1)


@dataclass(frozen=True)
class Within:
    """A right message meets a left one if it is at most `before` older and at most `after` younger (both inclusive):
    the bounds of Kafka Streams' `JoinWindows`. Durations are milliseconds or text such as "5m" (see `Duration`);
    anything else raises ValueError."""

    before: Duration = 0
    after: Duration = 0

    def __post_init__(self) -> None:
        self.bounds_ms  # noqa: B018  # raises ValueError

    @property
    def bounds_ms(self) -> tuple[int, int]:
        """`before` and `after` in milliseconds."""
        return milliseconds(self.before, "before of Within"), milliseconds(self.after, "after of Within")


class StreamStreamJoin:
    """Returns every pair of a left and a right message with the same key and `within` each other, and every message
    without a partner. The join is outer on both sides: drop the results that you do not want.

    1. `add` returns a pair with its second message.
    2. A message without a partner is returned when none can come on time: from `advance` (call it in `window`),
       and from `add` if `limit` messages have come since the last call, so that a backlog does not outrun `window`.
       `finish` returns all waiting messages.
    3. Late messages are dropped and counted.
    4. The waiting messages of a key are one value in the store for each interval of event time. A lookup reads two
       values, also when one input is far ahead of the other. The join is for keys with few messages in an interval.
       Each side of such a value has an entry in the index that is due no later than the oldest of its messages.
    5. Messages of a class are kept as plain values, and returned as new objects of the class.

    Metrics: `join.late`, messages dropped because they came too late.
    """

    def __init__(
        self,
        context: Context,
        store: str,
        streams: tuple[SystemStream, SystemStream],
        within: Within,
        rules: TimeRules = IN_ORDER,
        limit: int = 10_000,
    ) -> None:
        """`streams`: the left and the right one. `store` has string keys and json (or msgpack) values and is used for
        nothing else. `limit`: entries that one call takes at most. Raises EnvironmentFailure for inputs that do not
        meet, StoreError for a store in which messages wait for another interval."""
        self._side = sides(context, streams)
        values = typed_values(context, store, streams)
        self._typed = values[streams[0]], values[streams[1]]
        self._pending = PendingMessages(context, store, self._side, rules, limit)
        self._store = self._pending.store
        self._get, self._put = self._store.get, self._store.put
        before_ms, after_ms = within.bounds_ms
        _remember_interval(self._store, [before_ms, after_ms], f"{context.task.task_name}: store '{store}'")
        #: The longest time for which a message of either side waits for the other.
        self._waits_ms = (after_ms, before_ms)
        #: Wide enough that all partners of a message lie in two buckets.
        self._width_ms = max(before_ms + after_ms, 1)

    def mark(self, ssp: SystemStreamPartition, time_ms: int) -> None:
        """Accept a watermark of one of the `watermarked` partitions of the task: no older message follows."""
        self._pending.mark(ssp, time_ms)

    @property
    def settled_ms(self) -> int:
        """No later result has an event time before this."""
        return max(0, self._pending.settled_ms - max(self._waits_ms))

    def add(self, envelope: IncomingMessageEnvelope) -> list[Joined]:
        """Accept one message; returns its pairs, and perhaps some messages without a partner."""
        side, key, time_ms = self._side[envelope.ssp], envelope.key, envelope.event_time
        if type(key) is not str:
            key_of(envelope)
        if not self._pending.on_time(envelope):
            return []
        result, waits = self._meet(self._get, self._put, side, key, time_ms, envelope.message)
        if waits:
            self._pending.add(envelope, time_ms + self._waits_ms[side], f"{side}{key}")
        if self._pending.is_full():
            result += self.advance()
        return result

    def add_all(self, batch: Sequence[IncomingMessageEnvelope]) -> list[Joined]:
        """Like `add` of each message of a MessageBatch, or of any sequence of messages, in order. State is touched once
        a key and interval."""
        return [joined for run, _ in runs_of_partitions(batch) for joined in self._add_run(run)]

    def _add_run(self, run: Messages) -> list[Joined]:
        """Like `add_all`, for messages of one partition."""
        keys, messages, times = columns(run, 0, len(run), (None, None, None))
        check_keys(run, keys)
        places = self._pending.on_time_all(run, times)
        if not places:
            return []
        side = self._side[run[0].ssp]
        held = self._buckets([keys[place] for place in places], [times[place] for place in places], side)
        get, put = (self._get, self._put) if held is None else (held.get, held.__setitem__)
        before = dict(held or ())
        result: list[Joined] = []
        entries = []
        for place in places:
            pairs, waits = self._meet(get, put, side, keys[place], times[place], messages[place])
            result += pairs
            if waits:
                entries.append([times[place] + self._waits_ms[side], f"{side}{keys[place]}", True])
        if held:
            self._store.put_all({name: bucket for name, bucket in held.items() if bucket is not before[name]})
        if entries:
            self._pending.add_all(run[0], entries)
        if self._pending.is_full(len(places)):
            result += self.advance()
        return result

    def _buckets(self, keys: Sequence[str], times: Sequence[int], side: int) -> dict[str, Any] | None:
        """All buckets with possible partners of messages of a side, by name in the store; None if there are too
        many."""
        first = (min(times) - self._waits_ms[1 - side]) // self._width_ms
        last = (max(times) + self._waits_ms[side]) // self._width_ms
        different = dict.fromkeys(keys)
        if (last - first + 1) * len(different) > _BUCKETS_A_MESSAGE * len(keys):
            return None
        return self._store.get_all([f"key/{bucket}/{key}" for bucket in range(first, last + 1) for key in different])

    def advance(self) -> list[Joined]:
        """The messages that can no longer find a partner, in the order of the time when that was certain; it takes at
        most `limit` entries of the index."""
        due, passed = self._pending.take()
        lonely = self._drop([(name, time_ms, max(time_ms, passed - 1)) for time_ms, name, _ in due])
        lonely.sort(key=itemgetter(0))
        return [joined for _, joined in lonely]

    def finish(self) -> Iterator[Joined]:
        """All waiting messages, for the end of the inputs; for `on_end_of_stream`."""
        while due := self._pending.take_any():
            for _, joined in self._drop([(name, time_ms, time_ms) for time_ms, name, _ in due]):
                yield joined

    def _meet(
        self,
        get: Callable[[str], Any],
        put: Callable[[str, Any], object],
        side: int,
        key: str,
        time_ms: int,
        value: Any,
    ) -> tuple[list[Joined], bool]:
        """Join a message with the messages of the other side, and let it wait for more, in the buckets that `get` and
        `put` reach. Also returns whether the index needs an entry for it."""
        width_ms, other_side, typed = self._width_ms, 1 - side, self._typed[side]
        first, last = time_ms - self._waits_ms[other_side], time_ms + self._waits_ms[side]
        home, bucket, end = time_ms // width_ms, first // width_ms, last // width_ms
        own: Bucket = _EMPTY
        own_place = ""
        result: list[Joined] = []
        while bucket <= end:
            place = f"key/{bucket}/{key}"
            waiting: Bucket | None = get(place)
            if waiting is not None:
                near = [other for other in waiting[other_side] if first <= other[0] <= last]
                if near:
                    result += _pairs(key, side, side_of((time_ms, value)), near, self._typed[other_side])
                    if not all(map(_has_met, near)):
                        waiting = _matched(waiting, other_side, first, last)
                        if bucket != home:
                            put(place, waiting)
            if bucket == home:
                own_place = place
                if waiting is not None:
                    own = waiting
            bucket += 1
        entry = [time_ms, bool(result), value] if typed is None else [time_ms, bool(result), *typed.kept(value)]
        others = own[side]
        put(own_place, [[*others, entry], own[1]] if side == _LEFT else [own[0], [*others, entry]])
        # The index has the oldest message of a side. Messages mostly come in order, so it is mostly the first one.
        return result, not others or (time_ms < others[0][0] and time_ms < min([other[0] for other in others]))

    def _drop(self, due: Sequence[tuple[str, int, int]]) -> list[tuple[int, Joined]]:
        """Remove messages: of a side and key (together the name of an entry of the index), of the interval due at the
        second time, all messages due by the third. Returns the messages without a partner, each with the time when it
        was due."""
        waits, width_ms = self._waits_ms, self._width_ms
        places = [f"key/{(at - waits[int(name[0])]) // width_ms}/{name[1:]}" for name, at, _ in due]
        before = self._store.get_all(places)
        held: dict[str, Bucket | None] = dict(before)
        lonely: list[tuple[int, Joined]] = []
        for (name, _, passed_ms), place in zip(due, places, strict=True):
            side, key, waiting = int(name[0]), name[1:], held[place]
            if waiting is None:
                continue
            waits_ms = waits[side]
            gone, kept = waiting[side], [item for item in waiting[side] if item[0] + waits_ms > passed_ms]
            if kept:
                self._pending.keep(min([item[0] for item in kept]) + waits_ms, name)
                gone = [item for item in gone if item[0] + waits_ms <= passed_ms]
            if gone:
                other, typed = waiting[1 - side], self._typed[side]
                held[place] = ([kept, other] if side == _LEFT else [other, kept]) if kept or other else None
                for time_ms, matched, *kept_value in gone:
                    if not matched:
                        value = kept_value[0] if typed is None else typed.message(key, *kept_value)
                        lone = side_of((time_ms, value))
                        joined = joined_of((key, lone, None) if side == _LEFT else (key, None, lone))
                        lonely.append((time_ms + waits_ms, joined))
        changed = [(place, bucket) for place, bucket in held.items() if bucket is not before[place]]
        self._store.put_all([(place, bucket) for place, bucket in changed if bucket is not None])
        self._store.delete_all([place for place, bucket in changed if bucket is None])
        return lonely


def _remember_interval(store: KeyValueStore[str, Any], wanted: list[int], where: str) -> None:
    """Write the interval into the store. A store of an earlier version has none, and gets the present one.

    Raises StoreError if messages wait for another interval: their places in the store depend on it.
    """
    known: list[int] | None = store.get(_INTERVAL)
    if known == wanted:
        return
    if known is not None:
        with store.prefix("key/") as waiting:
            if any(True for _ in waiting):
                held, task = (f"{before} ms before to {after} ms after" for before, after in (known, wanted))
                raise StoreError(
                    f"{where}: messages wait in it for partners from {held}, the task wants {task}: "
                    "give it a new store with a changelog of its own, or the interval it had"
                )
    store.put(_INTERVAL, wanted)


def _pairs(key: str, side: int, message: Side, others: Sequence[Waiting], typed: TypedValues | None) -> list[Joined]:
    """A message of a side with each of the others."""
    if typed is not None:
        partners = typed.sides(key, others)
        if side == _LEFT:
            return [joined_of((key, message, partner)) for partner in partners]
        return [joined_of((key, partner, message)) for partner in partners]
    if side == _LEFT:
        return [joined_of((key, message, side_of((other[0], other[2])))) for other in others]
    return [joined_of((key, side_of((other[0], other[2])), message)) for other in others]


def _matched(bucket: Bucket, side: int, first: int, last: int) -> Bucket:
    """The bucket with the messages of `side` from `first` to `last` marked: they have a partner. All lists are new: the
    undo of a failed message restores the old ones."""
    marked = [
        message if message[1] or not first <= message[0] <= last else [message[0], True, *message[2:]]
        for message in bucket[side]
    ]
    return [marked, bucket[1]] if side == _LEFT else [bucket[0], marked]
