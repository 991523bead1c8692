"""`samzapy topic`: create, list, describe, read and write streams of any system.

The system is one of a job file, or one that options describe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import wraps
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, cast

import click

from samzapy.admin.streams import Literal, Range, Record, records, stream_admin, stream_producer
from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.cli.options import OVERRIDES, pairs
from samzapy.cli.output import table
from samzapy.config.job import JobConfig
from samzapy.config.loader import as_read, load_job
from samzapy.config.reading.keys import Reader
from samzapy.config.streams.systems import new_stream, parse_systems
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, SerdeError, UnknownStream

#: The default address of `samzapy kafka start`.
_DEVELOPMENT_BROKER = "127.0.0.1:9092"


@dataclass(frozen=True)
class Addressing:
    """The options that locate streams: by a job file, or by a description of the system."""

    job: Path | None
    kind: str | None
    path: str | None
    bootstrap: str | None
    overrides: tuple[str, ...] = ()

    def config(self) -> JobConfig | None:
        """The job, if one was named."""
        if self.job is None:
            if self.overrides:
                raise click.UsageError("--config overrides keys of a job file: name it with --job")
            return None
        if self.kind or self.path or self.bootstrap:
            raise click.UsageError("--job says where the systems are; leave out --system, --path and --bootstrap")
        return load_job(self.job, pairs(self.overrides))

    def settings(self, system: str, config: JobConfig | None) -> SystemSettings:
        """The settings of the system called `system`. Raises ConfigError if the job has no such system."""
        if config is None:
            return self._described(system)
        result = config.systems.get(system)
        if result is None:
            known = ", ".join(config.systems)
            raise ConfigError([ConfigProblem("address", system, f"the job's systems are {known}")])
        return result

    def _described(self, system: str) -> SystemSettings:
        kind = self.kind or ("kafka" if self.bootstrap or (system == "kafka" and not self.path) else "local")
        if (kind != "local" and self.path) or (kind != "kafka" and self.bootstrap):
            raise click.UsageError("--path is for a local system, --bootstrap for kafka")
        keys = {f"systems.{system}.samza.factory": kind}
        if self.path:
            keys[f"systems.{system}.path"] = self.path
        if kind == "kafka":
            for client in ("consumer", "producer"):
                keys[f"systems.{system}.{client}.bootstrap.servers"] = self.bootstrap or _DEVELOPMENT_BROKER
        reader = Reader(keys)
        systems = parse_systems(reader)
        if reader.problems:
            raise ConfigError(reader.problems)
        return systems[system]


def addressed(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `Addressing`, which the command gets as `where`."""

    @click.option("--job", type=click.Path(path_type=Path), metavar="FILE", help="A job file with the system.")
    @OVERRIDES
    @click.option("--system", "kind", type=click.Choice(["local", "kafka"]), help="The kind of system.")
    @click.option("--path", metavar="FILE", help="A local system's file; default .samzapy/local.db.")
    @click.option("--bootstrap", metavar="HOST:PORT", help=f"A Kafka broker; default {_DEVELOPMENT_BROKER}.")
    @wraps(command)
    def with_where(
        *args: Any,
        job: Path | None,
        kind: str | None,
        path: str | None,
        bootstrap: str | None,
        overrides: tuple[str, ...],
        **options: Any,
    ) -> None:
        command(*args, where=Addressing(job, kind, path, bootstrap, overrides), **options)

    return with_where


def stream_address(text: str) -> SystemStream:
    """`system.stream`. Raises click's error for anything else."""
    try:
        return SystemStream.parse(text)
    except ValueError as cause:
        raise click.BadParameter(str(cause), param_hint="ADDRESS") from cause


#: Records that are sent together, and bytes of input that are read together, at the most.
_BATCH, _PIECE = 1_000, 256 * 1024
_key_serde = click.option("--key-serde", metavar="NAME", help="Serde of keys; default the job's, else string.")
_msg_serde = click.option("--msg-serde", metavar="NAME", help="Serde of messages; default the job's, else string.")


@click.group()
def topic() -> None:
    """Create, list, describe, read and write streams.

    Write a stream as SYSTEM.STREAM. With --job the system is one of the job file. Without --job it is the local system
    of this folder, or Kafka on this machine if SYSTEM is kafka or --bootstrap is given.
    """


@topic.command()
@addressed
@click.argument("address")
@click.option("--partitions", type=click.IntRange(1, 100_000), required=True, help="The number of partitions.")
@click.option(
    "--topic-config", "texts", multiple=True, metavar="KEY=VALUE", help="A topic setting, e.g. cleanup.policy=compact."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32_767),
    help="The number of copies; default: the job's, else the system's.",
)
def create(
    address: str, where: Addressing, partitions: int, texts: tuple[str, ...], replication_factor: int | None
) -> None:
    """Create a stream. An existing stream is an error, and stays unchanged.

    With --job the stream gets the topic settings of the job file; --topic-config overrides them.
    """
    stream = stream_address(address)
    config = where.config()
    settings = where.settings(stream.system, config and as_read(config, stream))
    spec = new_stream(settings, stream.stream, partitions, pairs(texts, "--topic-config"), replication_factor)
    with stream_admin(settings) as admin:
        if not admin.create(spec):
            raise EnvironmentFailure(f"{stream} exists already")
    click.echo(f"created {stream} with {partitions} partitions")


@topic.command("list")
@addressed
@click.argument("system", required=False)
def list_streams(system: str | None, where: Addressing) -> None:
    """List the streams of SYSTEM. Without SYSTEM, list those of all systems of the job, or of the local system."""
    config = where.config()
    named = [system] if system else list(config.systems) if config else ["kafka" if where.bootstrap else "local"]
    rows = []
    for name in named:
        with stream_admin(where.settings(name, config)) as admin:
            for stream in admin.list_streams():
                description = admin.describe(stream)
                if description is not None:
                    policy = "?" if description.hidden else description.config.get("cleanup.policy", "")
                    rows.append((f"{name}.{stream}", description.partitions, policy))
    table(f"Streams of {', '.join(named)}", ("stream", "partitions", "policy"), rows)


@topic.command()
@addressed
@click.argument("address")
def describe(address: str, where: Addressing) -> None:
    """Show a stream's partitions with their offsets, and its configuration."""
    from samzapy.api.stream import SystemStreamPartition

    stream = stream_address(address)
    with stream_admin(where.settings(stream.system, where.config())) as admin:
        result = admin.describe(stream.stream)
        if result is None:
            raise UnknownStream(*stream)
        ssps = [SystemStreamPartition(*stream, number) for number in range(result.partitions)]
        ranges = admin.offsets(ssps)
    rows = [(ssp.partition, *ranges[ssp], ranges[ssp].upcoming - ranges[ssp].oldest) for ssp in ssps]
    table(f"{stream} (id {result.stream_id})", ("partition", "oldest", "upcoming", "offsets"), rows)
    if result.hidden:
        click.echo(f"Configuration: {result.hidden}")
    else:
        table("Configuration", ("key", "value"), sorted(result.config.items()))


@topic.command()
@addressed
@click.argument("address")
@click.option("--from", "start", default="oldest", show_default=True, help="oldest, newest, upcoming or an offset.")
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this partition; repeatable."
)
@click.option("--max", "most", type=click.IntRange(0), help="Stop after this number of records.")
@click.option("--follow", is_flag=True, help="Wait for further records at the end, until Ctrl-C.")
@click.option("--format", "shape", type=click.Choice(["json", "text"]), default="json", show_default=True)
@_key_serde
@_msg_serde
def read(address: str, where: Addressing, most: int | None, shape: str, **options: Any) -> None:
    """Print a stream's records up to its current end. A line is JSON, or key, tab, message."""
    from samzapy.admin.streams import as_text
    from samzapy.serializers import as_json

    stream = stream_address(address)
    config = where.config()
    settings = where.settings(stream.system, config)
    keys, messages = _literals(config, stream, options["key_serde"], options["msg_serde"])
    what = Range(options["start"], options["partitions"], options["follow"])

    def line(record: Record) -> str:
        position = f"{record.ssp}@{record.offset}"
        key = keys.decode(record.key, position, "key")
        message = messages.decode(record.value, position, "message")
        if shape == "text":
            return f"{as_text(key)}\t{as_text(message)}"
        head = {"partition": record.ssp.partition, "offset": record.offset, "timestamp": record.timestamp}
        return as_json({**head, "key": key, "message": message})

    with closing(records(settings, stream, what)) as result:
        for record in islice(result, most):
            sys.stdout.write(line(record) + "\n")
            if what.follow:
                sys.stdout.flush()


@topic.command()
@addressed
@click.argument("address")
@click.option("--key", help="The key of every message. Each line is then a whole message.")
@click.option("--partition", type=click.IntRange(0), help="The partition; default: by the key's hash.")
@click.option("--null", metavar="TEXT", help="A message with exactly this text becomes a null (a deletion).")
@_key_serde
@_msg_serde
def write(address: str, where: Addressing, **options: Any) -> None:
    """Write the lines of standard input. A line is key, tab, message. A line without a tab is a message without a
    key."""
    from samzapy.api.system import OutgoingRecord

    stream = stream_address(address)
    config = where.config()
    settings = where.settings(stream.system, config)
    keys, messages = _literals(config, stream, options["key_serde"], options["msg_serde"])

    def outgoing(number: int, line: bytes) -> OutgoingRecord:
        place = f"line {number}"
        key, message = _split(_text(line, place), options["key"])
        return OutgoingRecord(
            stream.stream,
            None if key is None else keys.encode(key, place, "key"),
            None if message == options["null"] else messages.encode(message, place, "message"),
            options["partition"],
        )

    with stream_admin(settings) as admin:
        if admin.describe(stream.stream) is None:
            raise UnknownStream(*stream)
    written = 0
    with stream_producer(settings) as producer:
        for lines in _arriving(cast("BufferedReader", sys.stdin.buffer)):
            rows = iter(lines)
            try:
                while batch := list(islice(rows, _BATCH)):
                    producer.send([outgoing(number, line) for number, line in enumerate(batch, written + 1)])
                    written += len(batch)
            except SerdeError as error:
                if not written:
                    raise
                producer.flush()
                raise SerdeError(f"{error}; the first {written} records were written") from error
            # A slow writer's lines are on the stream before the next ones come.
            producer.flush()
    click.echo(f"wrote {written} records to {stream}", err=True)


def _arriving(lines: BufferedReader) -> Iterator[list[bytes]]:
    """The whole lines of each piece of input, as soon as it comes; at the end the rest of a line."""
    left = b""
    while piece := lines.read1(_PIECE):
        *whole, left = (left + piece).split(b"\n")
        if whole:
            yield whole
    if left:
        yield [left]


def _literals(
    config: JobConfig | None, stream: SystemStream, key_serde: str | None, msg_serde: str | None
) -> tuple[Literal, Literal]:
    """The serdes of keys and messages: of the command line, else of the job, else strings."""
    from samzapy.api.serde import serde_at
    from samzapy.serializers import serde_registry

    registry = serde_registry(config or {})
    known = as_read(config, stream).stream(stream) if config else None
    key = key_serde or (known.key_serde or "bytes" if known else "string")
    message = msg_serde or (known.msg_serde or "bytes" if known else "string")
    keys, messages = (
        serde_at(registry[name], stream.stream, part) for name, part in ((key, "key"), (message, "value"))
    )
    return Literal(key, keys), Literal(message, messages)


def _text(line: bytes, place: str) -> str:
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError as cause:
        raise SerdeError(f"{place}: not UTF-8 (byte 0x{line[cause.start]:02x})") from cause


def _split(line: str, key: str | None) -> tuple[str | None, str]:
    if key is not None:
        return key, line
    first, tab, rest = line.partition("\t")
    return (first, rest) if tab else (None, line)
