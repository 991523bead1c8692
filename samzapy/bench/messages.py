"""The benchmark's events as a class, for jobs with typed messages."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct):
    """One event as `samzapy.bench.events` writes it. `at` is in milliseconds since 1970; `seen` is the field that a
    pass-through adds."""

    id: int
    user: str
    page: str
    amount: float
    at: int
    referrer: str | None
    seen: bool | None = None
