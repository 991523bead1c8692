"""Writes flights and planes to the inputs of a job, on the system that its file names.

python -m samzapy.examples.flights.load JOB.properties [--config key=value]...
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemAdmin
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, SamzapyError
from samzapy.examples.flights.dataset import Event, flights, planes
from samzapy.examples.flights.task import PLANES
from samzapy.serializers import serde_registry
from samzapy.system.clients import system_factory

FLIGHTS = "flights"
#: Partitions of both inputs.
PARTITIONS = 4
#: Records in each call of the producer.
BATCH = 5_000


def load(
    job: JobConfig,
    events: Sequence[tuple[str, Sequence[Event]]],
    on_progress: Callable[[int, int], None] | None = None,
) -> int:
    """Create the streams named in `events` on the job's default system, and write their events; returns the number of
    records.

    The records of a stream keep their order within a partition. `on_progress` gets the number of records written, and
    of all records. Before anything is written, raises EnvironmentFailure if a stream already holds records, and
    ConfigError if a stream is not an input of the job.
    """
    system = job.default_system or job.task.inputs[0].system
    settings = job.systems[system]
    factory = system_factory(settings)
    admin = factory.admin(settings, "flights-load")
    _check_inputs(job, system, [stream for stream, _ in events])
    try:
        for stream, _ in events:
            _create(admin, system, stream)
    finally:
        admin.close()
    total = sum(len(of_stream) for _, of_stream in events)
    producer = factory.producer(settings, "flights-load")
    done = 0
    try:
        for stream, of_stream in events:
            records = _records(job, system, stream, of_stream)
            while batch := list(islice(records, BATCH)):
                producer.send(batch)
                done += len(batch)
                if on_progress is not None:
                    on_progress(done, total)
        producer.flush()
    finally:
        producer.close()
    return done


def dataset() -> list[tuple[str, Sequence[Event]]]:
    """All events to load: planes, then flights."""
    return [(PLANES, planes()), (FLIGHTS, flights())]


def _check_inputs(job: JobConfig, system: str, streams: Sequence[str]) -> None:
    """Raise ConfigError for streams that the job does not read: the job file does not say how to write them."""
    missing = [f"{system}.{stream}" for stream in streams if SystemStream(system, stream) not in job.task.inputs]
    if missing:
        inputs = ",".join(map(str, job.task.inputs))
        raise ConfigError(
            [ConfigProblem("task.inputs", inputs, f"must name {', '.join(missing)}, which is to be written")]
        )


def _create(admin: SystemAdmin, system: str, stream: str) -> None:
    # These events are older than any retention: a broker would delete them within minutes.
    if admin.create(StreamSpec(stream, PARTITIONS, {"retention.ms": "-1"})):
        return
    description = admin.describe(stream)
    count = description.partitions if description else 0
    ranges = admin.offsets(SystemStreamPartition(system, stream, partition) for partition in range(count))
    held = sum(found.upcoming - found.oldest for found in ranges.values())
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
        yield OutgoingRecord(
            stream,
            None if key is None else key_bytes(key),
            None if value is None else value_bytes(value),
            timestamp=time_ms,
        )


def load_command(
    command: str,
    events_of: Callable[[JobConfig], Sequence[tuple[str, Sequence[Event]]]],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run `python -m samzapy.examples.<command> JOB.properties`: write the events of `events_of`; returns the exit
    code."""
    try:
        job = job_from_arguments(f"-m samzapy.examples.{command}", arguments)
        count = load(job, events_of(job))
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
        return failure.exit_code
    print(f"{count:,} records written")  # noqa: T201
    return 0


def job_from_arguments(command: str, arguments: Sequence[str] | None = None) -> JobConfig:
    """The job of `JOB.properties [--config key=value]...`; by default, of this process's arguments.

    `command` is the command line without `python`, for the usage message. Raises ConfigError."""
    parser = argparse.ArgumentParser(prog=f"python {command}")
    parser.add_argument("job", metavar="JOB.properties")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="override one key")
    options = parser.parse_args(arguments)
    overrides = {}
    for override in options.config:
        key, equals, value = override.partition("=")
        if not equals:
            parser.error(f"--config needs KEY=VALUE, got {override!r}")
        overrides[key] = value
    return load_job(options.job, overrides)


if __name__ == "__main__":
    sys.exit(load_command("flights.load", lambda _: dataset()))
