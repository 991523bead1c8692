"""Writes departures into the job's input, in the order in which they left.

python -m samzapy.examples.departures.load JOB.properties [--config key=value]...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from samzapy.examples.flights.dataset import Event, flights
from samzapy.examples.flights.load import load_command

DEPARTURES = "departures"
_MINUTE_MS = 60_000


def departures(events: Iterable[Event]) -> list[Event]:
    """The flights that left, by airport, in the order in which they did. Their time stays the scheduled hour, so the
    stream is as much out of order as flights are late."""
    left = [
        (
            event.time_ms + event.value["dep_delay"] * _MINUTE_MS,
            Event(event.value["origin"], event.value, event.time_ms),
        )
        for event in events
        if event.value["dep_delay"] is not None
    ]
    left.sort(key=lambda each: each[0])
    return [event for _, event in left]


if __name__ == "__main__":
    sys.exit(load_command("departures.load", lambda _: [(DEPARTURES, departures(flights()))]))
