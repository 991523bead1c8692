"""Page views of people who come and go, in the order in which they arrive: a phone may be out of reach for a while."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from samzapy.examples.flights.dataset import Event

_START_MS = 1_700_000_000_000
_SECOND_MS, _HOUR_MS = 1_000, 3_600_000
_PAGES = [f"/p/{number:02}" for number in range(50)]


def page_views(count: int, seed: int = 7, users: int = 200) -> list[Event]:
    """The first `count` page views to arrive, keyed by user."""
    chance = Random(seed)
    views = [view for user in range(users) for view in _views_of(f"user-{user:04}", count // users + 1, chance)]
    views.sort(key=lambda view: view[0])
    return [event for _, event in views[:count]]


def _views_of(user: str, count: int, chance: Random) -> Iterator[tuple[int, Event]]:
    """`count` views with the times of their arrival: visits of some minutes, hours between them."""
    time = _START_MS + chance.randrange(12 * _HOUR_MS)
    for _ in range(count):
        leaves = chance.random() < 0.1
        time += chance.randrange(_HOUR_MS, 12 * _HOUR_MS) if leaves else chance.randrange(5, 600) * _SECOND_MS
        # One in a hundred is sent when the phone is in reach again.
        delay = chance.randrange(5 * _HOUR_MS) if chance.random() < 0.01 else chance.randrange(120 * _SECOND_MS)
        yield time + delay, Event(user, {"page": chance.choice(_PAGES)}, time)
