"""What joins give back."""

from __future__ import annotations

from typing import Any, NamedTuple


class Side(NamedTuple):
    """One message of a joined pair: its event time (ms since 1970) and its value."""

    time_ms: int
    value: Any


class Joined(NamedTuple):
    """Two messages of one key, or one that found no partner: the other side is None then."""

    key: str
    left: Side | None
    right: Side | None
