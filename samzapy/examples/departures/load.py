"""Writes departures into the job's input, in the order in which they left.

python -m samzapy.examples.departures.load JOB.properties [--config key=value]...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from samzapy.errors import SamzapyError
from samzapy.examples.flights.dataset import Event, flights
from samzapy.examples.flights.job_file import job_from_arguments
from samzapy.examples.flights.load import load

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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    try:
        job = job_from_arguments("departures.load", arguments)
        count = load(job, [(DEPARTURES, departures(flights()))])
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
        return failure.exit_code
    print(f"{count:,} records written")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
