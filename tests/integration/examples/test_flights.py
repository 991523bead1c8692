"""The flights job over all flights, against lists of the CSV's rows."""

from __future__ import annotations

import csv
import io
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.examples.flights.load import data_folder, dataset, load
from samzapy.examples.flights.table import read_results
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

JOB = Path(__file__).parents[3] / "configs" / "flights.properties"


def expected():
    """The values by "carrier hour", from the CSV alone."""
    planes_csv = (data_folder() / "planes.csv").read_text(encoding="utf-8")
    models = {row["tailnum"]: row["model"] for row in csv.DictReader(io.StringIO(planes_csv))}
    archive = zipfile.ZipFile(data_folder() / "flights.csv.zip")
    delays, of_models, cancelled = defaultdict(list), defaultdict(lambda: defaultdict(list)), defaultdict(int)
    for row in csv.DictReader(io.StringIO(archive.read("flights.csv").decode())):
        key = f"{row['carrier']} {int(row['hour']):02}"
        if row["dep_delay"] == "NA":
            cancelled[key] += 1
            continue
        delays[key].append(int(row["dep_delay"]))
        if row["tailnum"] in models:
            of_models[key][models[row["tailnum"]]].append(int(row["dep_delay"]))
    return {
        key: {
            "flights": len(delays[key]) + cancelled[key],
            "cancelled": cancelled[key],
            "delay": sample(delays[key]) if delays[key] else None,
            "models": {model: sample(minutes) for model, minutes in of_models[key].items()},
        }
        for key in delays.keys() | cancelled.keys()
    }


def sample(minutes):
    return [len(minutes), sum(minutes), max(minutes)]


def run(job):
    return LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed


@pytest.mark.slow
def test_the_delays_are_those_of_the_csv_and_a_second_run_adds_nothing(tmp_path):
    job = load_job(
        JOB, {"systems.events.path": str(tmp_path / "local.db"), "job.logged.store.base.dir": str(tmp_path / "state")}
    )
    events = dataset()
    assert load(job, events) == sum(len(of_stream) for _, of_stream in events) == run(job)
    assert read_results(job) == expected()
    assert run(job) == 0
    assert read_results(job) == expected()
    with pytest.raises(EnvironmentFailure, match=r"topic 'planes' on system 'events' holds 3,322 records"):
        load(job, events)
