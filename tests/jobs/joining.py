"""Three jobs that join the streams `left` with `right` of the system `events`, their inputs, and their results by plain
lists. `joining.prefix` in the job's keys comes before the names of the streams."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections import defaultdict
from random import Random
from typing import Any

from samzapy import (
    CopartitionedTask,
    EndOfStreamListenerTask,
    InitableTask,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    WindowableTask,
)
from samzapy.examples.flights.load import Event
from samzapy.operators.joins import AsOfJoin, StreamStreamJoin, TableTableJoin, TimeRules, Within

START_MS, MINUTE_MS = 1_767_225_600_000, 60_000
WITHIN_MS, LATENESS_MS, TOLERANCE_MS = 30 * MINUTE_MS, MINUTE_MS, 60 * MINUTE_MS
Pairs = list[tuple[str, Any]]


def streams(context, *names):
    """The streams of a job, by their names without the prefix."""
    return tuple(SystemStream("events", f"{context.job.config['joining.prefix']}{name}") for name in names)


class Joining(StreamTask, InitableTask, CopartitionedTask, WindowableTask, EndOfStreamListenerTask):
    """Sends the values of both sides, None for no partner."""

    @abstractmethod
    def make(self, context, inputs) -> Any:
        """The join."""

    def init(self, context):
        (self.output,) = streams(context, "joined")
        self.join = self.make(context, streams(context, "left", "right"))

    def process(self, envelope, collector, coordinator):
        self.send(self.join.add(envelope), collector)

    def window(self, collector, coordinator):
        self.send(self.join.advance(), collector)

    def on_end_of_stream(self, collector, coordinator):
        self.send(self.join.finish(), collector)

    def send(self, results, collector):
        for key, left, right in results:
            message = [left and left.value, right and right.value]
            collector.send(OutgoingMessageEnvelope(self.output, message, key=key))


class Intervals(Joining):
    """Pairs with at most half an hour between them, and messages without a partner."""

    def make(self, context, inputs):
        return StreamStreamJoin(context, "state", inputs, Within(after=WITHIN_MS), TimeRules(LATENESS_MS))


class AsOf(Joining):
    """Each left message with the last right one, at most an hour older."""

    def make(self, context, inputs):
        return AsOfJoin(context, "state", inputs, TOLERANCE_MS)


class Tables(StreamTask, InitableTask, CopartitionedTask):
    """The rows of both tables in the store."""

    def init(self, context):
        names = ("left", "right")
        self.rows = TableTableJoin(context, "state", dict(zip(streams(context, *names), names, strict=True)))

    def process(self, envelope, collector, coordinator):
        self.rows.update(envelope)


def inputs(task: type, count: int = 1_500, seed: int = 7) -> list[tuple[str, list[Event]]]:
    """The events of both streams, in the order of arrival."""
    drawn = Random(seed)
    left, right = {Intervals: _intervals, AsOf: _readings, Tables: _changes}[task](drawn, count)
    return [("left", left), ("right", right)]


def _intervals(drawn: Random, count: int) -> tuple[list[Event], list[Event]]:
    """About a third of the left ones has a partner, some two, some too late; some right ones have none. One in a
    hundred events is late, the others arrive up to a minute after their time."""
    left, right = [], []
    for number in range(count):
        time_ms = START_MS + number * 1_000
        left.append(Event(f"key-{number}", {"left": number}, time_ms))
        for _ in range(drawn.choices((0, 1, 2), (66, 30, 4))[0]):
            after_ms = int(drawn.expovariate(3 / WITHIN_MS))
            right.append(Event(f"key-{number}", {"right": drawn.random()}, time_ms + after_ms))
        if drawn.random() < 0.01:
            right.append(Event(f"alone-{number}", {"right": drawn.random()}, time_ms))

    def arrival_ms(event: Event) -> int:
        return event.time_ms + (3_600_000 if drawn.random() < 0.01 else drawn.randrange(LATENESS_MS))

    return sorted(left, key=arrival_ms), sorted(right, key=arrival_ms)


def _readings(drawn: Random, count: int) -> tuple[list[Event], list[Event]]:
    """Three keys; a right one about every hour."""
    left, right = [], []
    for number in range(count):
        time_ms = START_MS + number * 5 * MINUTE_MS
        left.append(Event(f"key-{drawn.randrange(3)}", {"left": number}, time_ms))
        if number % 4 == 0:
            right.append(Event(f"key-{drawn.randrange(3)}", {"right": number}, time_ms))
    return left, right


def _changes(drawn: Random, count: int) -> tuple[list[Event], list[Event]]:
    """One change in six is a deletion."""
    tables: tuple[list[Event], list[Event]] = [], []
    for number in range(count):
        value = None if drawn.random() < 1 / 6 else {"number": number}
        drawn.choice(tables).append(Event(f"key-{drawn.randrange(100)}", value, START_MS + number * 1_000))
    return tables


def expected(task: type, left: list[list[Event]], right: list[list[Event]]) -> Pairs:
    """The results of a job over the partitions of its inputs."""
    return {Intervals: _within, AsOf: _as_of, Tables: _rows}[task](left, right)


def _within(left: list[list[Event]], right: list[list[Event]]) -> Pairs:
    lefts, rights = ([event for events in stream for event in _on_time(events)] for stream in (left, right))
    by_key = {event.key: event for event in lefts}
    results, matched = [], set()
    for event in rights:
        partner = by_key.get(event.key)
        if partner is not None and 0 <= event.time_ms - partner.time_ms <= WITHIN_MS:
            matched.add(event.key)
            results.append((event.key, [partner.value, event.value]))
        else:
            results.append((event.key, [None, event.value]))
    return results + [(event.key, [event.value, None]) for event in lefts if event.key not in matched]


def _on_time(events: list[Event]) -> list[Event]:
    newest, kept = 0, []
    for event in events:
        if event.time_ms >= newest - LATENESS_MS:
            kept.append(event)
        newest = max(newest, event.time_ms)
    return kept


def _as_of(left: list[list[Event]], right: list[list[Event]]) -> Pairs:
    rights: dict[str | None, list[Event]] = defaultdict(list)
    for event in (event for events in right for event in events):
        rights[event.key].append(event)
    results = []
    for event in (event for events in left for event in events):
        earlier = rights[event.key][: bisect_right([other.time_ms for other in rights[event.key]], event.time_ms)]
        near = earlier and event.time_ms - earlier[-1].time_ms <= TOLERANCE_MS
        results.append((event.key, [event.value, earlier[-1].value if near else None]))
    return results


def _rows(left: list[list[Event]], right: list[list[Event]]) -> Pairs:
    rows: dict[str | None, dict[str, Any]] = defaultdict(dict)
    for name, table in (("left", left), ("right", right)):
        newest = {event.key: event.value for events in table for event in events}
        for key, value in newest.items():
            if value is not None:
                rows[key][name] = value
    return list(rows.items())
