"""Inputs drawn from a seed: the same seed gives the same events, on every machine."""

from __future__ import annotations

import random

from samzapy.examples.flights.dataset import Event
from samzapy.examples.joins.impressions_clicks import CLICKED_WITHIN_MS, LATENESS_MS

#: 2026-01-01T00:00:00Z.
START_MS = 1_767_225_600_000

_CITIES = ("Bergen", "Kyoto", "Lagos", "Lima", "Perth")
_LANGUAGES = ("en", "es", "ja", "nb")
_REGIONS = ("africa", "america", "asia", "europe", "oceania")
_PAGES = ("/", "/docs", "/docs/joins", "/shop", "/shop/cart")


def profiles_and_settings(seed: int = 7, members: int = 300, changes: int = 3_000) -> tuple[list[Event], list[Event]]:
    """Changes of two tables keyed by user; one in six is a deletion."""
    drawn = random.Random(seed)
    profiles, settings = [], []
    for number in range(changes):
        user = f"user-{drawn.randrange(members)}"
        gone, time_ms = drawn.random() < 1 / 6, START_MS + number * 1_000
        if drawn.random() < 0.5:
            profile = {"name": f"{user} #{number}", "city": drawn.choice(_CITIES)}
            profiles.append(Event(user, None if gone else profile, time_ms))
        else:
            chosen = {"language": drawn.choice(_LANGUAGES), "newsletter": drawn.random() < 0.5}
            settings.append(Event(user, None if gone else chosen, time_ms))
    return profiles, settings


def views_and_users(seed: int = 7, users: int = 200, views: int = 2_000) -> tuple[list[Event], list[Event]]:
    """Page views keyed by user, one in twenty of a user that nobody knows; and the users, some of whom have moved."""
    drawn = random.Random(seed)
    known = [f"user-{number}" for number in range(users)]
    moves = known + drawn.choices(known, k=users // 4)
    table = [Event(user, {"region": drawn.choice(_REGIONS)}, START_MS + n * 1_000) for n, user in enumerate(moves)]
    seen = []
    for number in range(views):
        user = drawn.choice(known) if drawn.random() > 0.05 else f"guest-{drawn.randrange(users)}"
        seen.append(Event(user, {"user": user, "page": drawn.choice(_PAGES)}, START_MS + number * 500))
    return seen, table


def impressions_and_clicks(seed: int = 7, count: int = 5_000) -> tuple[list[Event], list[Event]]:
    """Impressions, one about every second, and clicks, both keyed by the impression and in the order of their arrival.

    About a third is clicked on, some of it twice, some too late to count; some clicks belong to no impression. Up to
    `LATENESS_MS` lie between an event and its arrival, and one event in a hundred is an hour late.
    """
    drawn = random.Random(seed)
    impressions, clicks = [], []
    time_ms = START_MS
    for number in range(count):
        time_ms += drawn.randrange(2_000)
        key = f"impression-{number}"
        impressions.append(Event(key, {"ad": f"ad-{drawn.randrange(50)}"}, time_ms))
        for _ in range(drawn.choices((0, 1, 2), (66, 30, 4))[0]):
            after_ms = int(drawn.expovariate(3 / CLICKED_WITHIN_MS))
            clicks.append(Event(key, {"user": f"user-{drawn.randrange(500)}"}, time_ms + after_ms))
        if drawn.random() < 0.01:
            clicks.append(Event(f"unknown-{number}", {"user": f"user-{drawn.randrange(500)}"}, time_ms))
    return _as_they_arrive(drawn, impressions), _as_they_arrive(drawn, clicks)


def _as_they_arrive(drawn: random.Random, events: list[Event]) -> list[Event]:
    def arrival_ms(event: Event) -> int:
        return event.time_ms + (3_600_000 if drawn.random() < 0.01 else drawn.randrange(LATENESS_MS))

    return [event for _, event in sorted(((arrival_ms(event), event) for event in events), key=lambda each: each[0])]
