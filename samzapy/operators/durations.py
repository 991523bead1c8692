"""Lengths of time as a user writes them, in milliseconds."""

from __future__ import annotations

import re

#: Milliseconds, or a number with a unit: `250ms`, `10s`, `5m`, `1h`, `1d`.
Duration = int | str

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
#: A hundred years; with the latest event time (`event_time.LATEST_MS`) it stays below 10^14, see `windows.state`.
LONGEST_MS = 36_525 * _UNITS["d"]


def milliseconds(duration: Duration, what: str, least: int = 0) -> int:
    """The milliseconds of `duration`. Raises ValueError, which names `what`, for anything that is not at least `least`."""
    given: object = duration
    if isinstance(duration, str):
        match = _TEXT.fullmatch(duration.strip())
        given = int(match[1]) * _UNITS[match[2]] if match else None
    if type(given) is not int or not least <= given <= LONGEST_MS:
        raise ValueError(
            f"{what}: milliseconds from {least} to {LONGEST_MS}, or a number with ms, s, m, h or d, got {duration!r}"
        )
    return given
