"""Joins two streams within an interval of event time, and returns the messages that found no partner in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.operators.event_time import Duration, milliseconds
from samzapy.operators.joins.pending import IN_ORDER, PendingMessages, TimeRules
from samzapy.operators.joins.sides import Joined, Side, key_of, sides

#: One waiting message: [event time, whether it has met a partner, value].
Waiting = list[Any]
#: The waiting messages of a key in one stretch of event time: the left ones, the right ones.
Bucket = list[list[Waiting]]
_EMPTY: Bucket = [[], []]

_LEFT, _RIGHT = 0, 1


@dataclass(frozen=True)
class Within:
    """A right message meets a left one if it is at most `before` older and at most `after` younger (both inclusive): the
    bounds of Kafka Streams' `JoinWindows`. Durations are milliseconds or text such as "5m" (see `Duration`); anything else
    raises ValueError."""

    before: Duration = 0
    after: Duration = 0

    def __post_init__(self) -> None:
        milliseconds(self.before, "before of Within")
        milliseconds(self.after, "after of Within")

    @property
    def before_ms(self) -> int:
        """`before` in milliseconds."""
        return milliseconds(self.before, "before of Within")

    @property
    def after_ms(self) -> int:
        """`after` in milliseconds."""
        return milliseconds(self.after, "after of Within")


class StreamStreamJoin:
    """Returns every pair of a left and a right message that have the same key and are `within` each other, and every
    message that found no partner. It is outer on both sides: drop the results that you do not want.

    1. `add` returns a pair with its second message.
    2. A message without a partner is returned when none can come on time any more: from `advance` (call it in `window`),
       and from `add` if the index has grown by `limit` entries since the last scan, so that a backlog does not outrun
       `window`. `finish` returns all that wait.
    3. Late messages are dropped and counted.
    4. The waiting messages of a key are one value in the store for each interval of event time. A lookup reads two values,
       however far one input is ahead of the other. The join is for keys with few messages in an interval.

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
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`streams`: the left and the right one. `store` has string keys and json (or msgpack) values and is used for
        nothing else. `limit`: entries a scan takes at most. `clock` serves the idle rule. Raises EnvironmentFailure
        for inputs that do not meet."""
        self._side = sides(context, streams)
        self._pending = PendingMessages(context, store, self._side, rules, limit, clock)
        self._store = self._pending.store
        before_ms, after_ms = within.before_ms, within.after_ms
        #: How long a message of either side can wait for the other.
        self._waits_ms = (after_ms, before_ms)
        #: So wide that what a message can meet lies in two buckets.
        self._width_ms = max(before_ms + after_ms, 1)

    def add(self, envelope: IncomingMessageEnvelope) -> list[Joined]:
        """Take one message; returns the pairs that it makes, and perhaps some that found no partner."""
        side, time_ms = self._side[envelope.ssp], envelope.event_time
        key = key_of(envelope.key)
        if not self._pending.on_time(envelope):
            return []
        found = self._meet(side, key, time_ms, envelope.message)
        if self._pending.add(time_ms + self._waits_ms[side], f"{side}{key}"):
            found += self.advance()
        return found

    def advance(self) -> list[Joined]:
        """The messages that found no partner and can find none any more; one scan of at most `limit` due entries."""
        due, _ = self._pending.take()
        return [joined for time_ms, name, _ in due for joined in self._drop(name, time_ms)]

    def finish(self) -> Iterator[Joined]:
        """All messages that wait, as if nothing would come any more; for `on_end_of_stream`."""
        while due := self._pending.take_any():
            for time_ms, name, _ in due:
                yield from self._drop(name, time_ms)

    def _meet(self, side: int, key: str, time_ms: int, value: Any) -> list[Joined]:
        """Join a message with those of the other side, and let it wait for more."""
        before_ms, after_ms = self._waits_ms[1 - side], self._waits_ms[side]
        found: list[Joined] = []
        for bucket in range((time_ms - before_ms) // self._width_ms, (time_ms + after_ms) // self._width_ms + 1):
            waiting: Bucket = self._store.get(_key(bucket, key)) or _EMPTY
            # New lists throughout: the old ones are what a failed message goes back to.
            others = []
            for other in waiting[1 - side]:
                if -before_ms <= other[0] - time_ms <= after_ms:
                    pair = Side(time_ms, value), Side(other[0], other[2])
                    found.append(Joined(key, *(pair if side == _LEFT else pair[::-1])))
                    others.append([other[0], True, other[2]])
                else:
                    others.append(other)
            if others != waiting[1 - side]:
                self._put(bucket, key, 1 - side, others, waiting[side])
        bucket = time_ms // self._width_ms
        waiting = self._store.get(_key(bucket, key)) or _EMPTY
        self._put(bucket, key, side, [*waiting[side], [time_ms, bool(found), value]], waiting[1 - side])
        return found

    def _put(self, bucket: int, key: str, side: int, messages: list[Waiting], others: list[Waiting]) -> None:
        self._store.put(_key(bucket, key), [messages, others] if side == _LEFT else [others, messages])

    def _drop(self, name: str, due_ms: int) -> list[Joined]:
        """Remove the messages of a side and key that were due at `due_ms`; returns those without a partner."""
        side, key = int(name[0]), name[1:]
        time_ms = due_ms - self._waits_ms[side]
        bucket = time_ms // self._width_ms
        waiting: Bucket = self._store.get(_key(bucket, key)) or _EMPTY
        kept = [message for message in waiting[side] if message[0] != time_ms]
        if kept or waiting[1 - side]:
            self._put(bucket, key, side, kept, waiting[1 - side])
        else:
            self._store.delete(_key(bucket, key))
        lonely = [Side(time_ms, value) for at_ms, matched, value in waiting[side] if at_ms == time_ms and not matched]
        return [Joined(key, lone, None) if side == _LEFT else Joined(key, None, lone) for lone in lonely]


def _key(bucket: int, key: str) -> str:
    return f"key/{bucket}/{key}"
