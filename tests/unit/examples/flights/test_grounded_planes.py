from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from samzapy.testing import TestRunner
from samzapy.testing.runner import Input

JOB = Path(__file__).parents[4] / "configs" / "grounded-planes.properties"
HOUR_MS = 3_600_000


def flight(tail, hour, delay=0):
    return Input({"tailnum": tail, "dep_delay": delay}, key=tail, timestamp=hour * HOUR_MS)


def grounded(flights):
    """(plane, hour since which it stood), as the job says."""
    keys = {"grounded.hours": "24", "stores.timers.base": "memory"}
    outputs = TestRunner.of(JOB).with_config(keys).with_input("flights", flights).run().outputs("grounded-planes")
    since = [datetime.fromisoformat(each["since"]).astimezone(timezone.utc) for each in outputs.messages]
    return [(key, round(at.timestamp() / 3600)) for key, at in zip(outputs.keys, since, strict=True)]


def test_a_plane_that_does_not_depart_for_a_day_is_told_once_and_again_after_its_next_departure():
    flights = [
        flight("N1", 0),
        flight("N2", 1),
        flight("N1", 20),
        flight("N2", 20, None),  # cancelled: it stays where it is
        flight("N3", 30),
        flight("N2", 31),
        flight("N3", 50),
        flight("N1", 70),
        flight("N3", 71),
    ]
    assert grounded(flights) == [("N2", 1), ("N1", 20), ("N2", 31)]


def test_a_departure_in_time_is_nothing_to_tell():
    assert grounded([flight("N1", hour) for hour in range(0, 200, 23)]) == []
