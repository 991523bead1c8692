"""The loops by hand of `operator-jobs`: each does with dicts, lists and heaps what the operator does, and stores
nothing."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict, deque
from heapq import heappop, heappush
from typing import Any

from samzapy import IncomingMessageEnvelope, SystemStream, SystemStreamPartition

Messages = list[IncomingMessageEnvelope]

LEFT = SystemStream("mem", "left")
SSP = LEFTS = SystemStreamPartition("mem", "left", 0)
RIGHTS = SystemStreamPartition("mem", "right", 0)

#: Messages between two closings of what is over.
CLOSE = 10_000
TIMEOUT_MS = 3_000
_GRACE_MS = 5_000


def score_of(offset: int) -> int:
    """A delay, made of the offset."""
    return offset * 7_919 % 10_007


def group_of(offset: int) -> str:
    """One of ten carriers."""
    return f"C{offset % 10}"


def score(envelope: IncomingMessageEnvelope) -> int:
    """The delay of a message."""
    return score_of(envelope.offset)


def group(envelope: IncomingMessageEnvelope) -> str:
    """The carrier of a message."""
    return group_of(envelope.offset)


def tumbling(messages: Messages) -> int:
    return _aligned(messages, 60_000, 60_000)


def _aligned(messages: Messages, size: int, step: int) -> int:
    by_end: dict[int, dict[str, int]] = {}
    newest = closed = 0
    for number, envelope in enumerate(messages, 1):
        at, key = envelope.event_time, envelope.key
        newest = max(newest, at)
        end = at - at % step + step
        while end - size <= at:
            counts = by_end.setdefault(end, {})
            counts[key] = counts.get(key, 0) + 1
            end += step
        if not number % CLOSE:
            for end in sorted(end for end in by_end if end + _GRACE_MS <= newest):
                closed += len(by_end.pop(end))
    return closed


def sessions(messages: Messages, gap: int = 2_000) -> int:
    """One open session a key, with its due time in a heap."""
    opened: dict[str, list[list[int]]] = {}
    due: list[tuple[int, str]] = []
    newest = closed = 0
    for number, envelope in enumerate(messages, 1):
        at, key = envelope.event_time, envelope.key
        newest = max(newest, at)
        held = opened.get(key)
        if held is None:
            opened[key] = [[at, at, 1]]
            heappush(due, (at + gap, key))
        else:
            near = [s for s in held if s[0] - at < gap and at - s[1] < gap]
            if near:
                first = near[0]
                for other in near[1:]:
                    first[1], first[2] = max(first[1], other[1]), first[2] + other[2]
                    held.remove(other)
                first[0], first[1], first[2] = min(first[0], at), max(first[1], at), first[2] + 1
            else:
                insort(held, [at, at, 1])
        if not number % CLOSE:
            while due and due[0][0] <= newest - _GRACE_MS:
                _, key = heappop(due)
                left = [s for s in opened[key] if s[1] + gap > newest - _GRACE_MS]
                closed += len(opened[key]) - len(left)
                if left:
                    opened[key] = left
                    heappush(due, (left[0][1] + gap, key))
                else:
                    del opened[key]
    return closed


def as_of(messages: Messages) -> int:
    waiting: list[tuple[int, int, int, str, Any]] = []
    marks = {LEFTS: 0, RIGHTS: 0}
    latest: dict[str, tuple[int, Any]] = {}
    result: list[tuple[Any, ...]] = []
    for number, envelope in enumerate(messages, 1):
        at = envelope.event_time
        marks[envelope.ssp] = max(marks[envelope.ssp], at)
        side = 1 if envelope.ssp is LEFTS else 0
        heappush(waiting, (at, side, envelope.offset, envelope.key, envelope.message))
        if not number % CLOSE:
            over = min(marks.values())
            while waiting and waiting[0][0] < over:
                at, side, _, key, value = heappop(waiting)
                if side:
                    held = latest.get(key)
                    near = held is not None and at - held[0] <= 60_000
                    result.append((key, (at, value), held if near else None))
                else:
                    latest[key] = at, value
    return len(result)


def stream_stream(messages: Messages, after: int = 5_000) -> int:
    marks = {LEFTS: 0, RIGHTS: 0}
    waiting: dict[str, tuple[deque[list[Any]], deque[list[Any]]]] = defaultdict(lambda: (deque(), deque()))
    due: list[tuple[int, int, str]] = []
    result: list[tuple[Any, ...]] = []
    for number, envelope in enumerate(messages, 1):
        at, key, side = envelope.event_time, envelope.key, int(envelope.ssp is RIGHTS)
        marks[envelope.ssp] = max(marks[envelope.ssp], at)
        sides = waiting[key]
        met = False
        for other in sides[1 - side]:
            if 0 <= (at - other[0] if side else other[0] - at) <= after:
                other[1] = met = True
                pair = (at, envelope.message), (other[0], other[2])
                result.append((key, *(pair[::-1] if side else pair)))
        sides[side].append([at, met, envelope.message])
        heappush(due, (at if side else at + after, side, key))
        if not number % CLOSE:
            over = min(marks.values())
            while due and due[0][0] < over:
                _, side, key = heappop(due)
                at, met, value = waiting[key][side].popleft()
                if not met:
                    result.append((key, (at, value), None))
    return len(result)


def timers(messages: Messages) -> int:
    times: dict[str, int] = {}
    due: list[tuple[int, str]] = []
    now = fired = 0
    for envelope in messages:
        at, key = envelope.event_time + TIMEOUT_MS, envelope.key
        times[key] = at
        heappush(due, (at, key))
        now = max(now, envelope.event_time)
        while due and due[0][0] <= now:
            at, key = heappop(due)
            if times.get(key) == at:
                del times[key]
                fired += 1
    return fired


def heap(messages: Messages, size: int = 100) -> int:
    worst: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for envelope in messages:
        held, item = worst[group(envelope)], (score(envelope), envelope.offset, envelope.key)
        if len(held) < size or item > held[0]:
            insort(held, item)
            if len(held) > size:
                del held[0]
    return len(worst)


def count(messages: Messages) -> int:
    counts: dict[str, int] = {}
    for envelope in messages:
        key = envelope.key
        counts[key] = counts.get(key, 0) + 1
    return len(counts)
