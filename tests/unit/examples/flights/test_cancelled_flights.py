from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from samzapy.config.loader import load_job
from samzapy.examples.flights.dataset import Event
from samzapy.examples.flights.load import load
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

JOB = Path(__file__).parents[4] / "configs" / "cancelled-flights.properties"
#: 2013-02-09, 13:00 UTC.
AT_MS = 1_360_414_800_000


def flight(number: int, delay: int | None) -> Event:
    value = {"carrier": "B6", "flight": number, "tailnum": None, "origin": "JFK", "dest": "BOS", "hour": 8}
    return Event(f"N{number}", value | {"dep_delay": delay}, AT_MS)


def test_every_cancelled_flight_is_a_row_and_stays_one_in_the_next_run(tmp_path):
    job = load_job(
        JOB, {"systems.events.path": str(tmp_path / "local.db"), "cancelled.flights.database": str(tmp_path / "c.db")}
    )
    load(job, [("flights", [flight(1, 5), flight(2, None), flight(3, -2), flight(4, None)])])
    for _ in range(2):
        LocalRunner().run(prepare(job, until_end=True), RunOptions())
    with closing(sqlite3.connect(tmp_path / "c.db")) as connection:
        rows = connection.execute("SELECT * FROM cancelled ORDER BY flight").fetchall()
    assert rows == [("2013-02-09", 8, "B6", number, "JFK", "BOS") for number in (2, 4)]
