"""Which checkpoint time is next."""

from __future__ import annotations


def next_time(last_ms: int, clock_ms: int, interval_ms: int) -> int | None:
    """The roundest multiple of the interval with last < multiple <= clock; None if there is none.

    Roundest: divisible by the largest power of two. Tasks that see few messages pass many multiples at once and cannot
    take them all; so chosen, two tasks that never pass the same ones still meet: at each 2**k-th multiple, as soon as
    neither passes so many at once. The job falls back, at a crash, by twice its longest gap between messages at most.
    """
    first, latest = last_ms // interval_ms + 1, clock_ms // interval_ms
    if latest < first:
        return None
    while (rounder := latest & (latest - 1)) >= first:
        latest = rounder
    return latest * interval_ms
