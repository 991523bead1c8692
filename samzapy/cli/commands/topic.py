"""`samzapy topic`: streams of any system, of a job file or that options describe."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

from samzapy.admin.streams import Literal, Range, Record, records, stream_admin, stream_producer
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemSettings
from samzapy.cli.output import FILE, JSON, OVERRIDES, Command, pairs, table, warn
from samzapy.config.job import JobConfig
from samzapy.config.loader import as_read, load_job
from samzapy.config.reading.keys import Reader
from samzapy.config.streams.systems import new_stream, parse_systems
from samzapy.errors import ConfigError, EnvironmentFailure, SerdeError, UnknownStream, counted, raise_if_any


class Systems(NamedTuple):
    """The systems of a job file, or one that options describe."""

    config: JobConfig | None
    path: str | None
    bootstrap: str | None

    def settings(self, system: str, stream: SystemStream | None = None) -> SystemSettings:
        """The settings of the system called `system`, as the job reads the `stream`. Raises ConfigError if the job has
        no such system."""
        if self.config is None:
            return self._described(system)
        config = self.config if stream is None else as_read(self.config, stream)
        result = config.systems.get(system)
        if result is None:
            raise ConfigError.of("address", system, f"the job's systems are {', '.join(config.systems)}")
        return result

    def _described(self, system: str) -> SystemSettings:
        if self.path and self.bootstrap:
            raise click.UsageError("--path is for a local system, --bootstrap for kafka")
        on_kafka = self.bootstrap or (system == "kafka" and not self.path)
        keys = {f"systems.{system}.samza.factory": "kafka" if on_kafka else "local"}
        if self.path:
            keys[f"systems.{system}.path"] = self.path
        if on_kafka:
            from samzapy.devkafka.broker import development_broker

            keys[f"systems.{system}.consumer.bootstrap.servers"] = self.bootstrap or development_broker()
        reader = Reader(keys)
        systems = parse_systems(reader)
        raise_if_any(reader.problems)
        return systems[system]


def _addressed(command: Command) -> Command:
    """Adds the options that locate streams; the command gets the `systems`."""

    @click.option("--job", type=FILE, metavar="FILE", help="A job file with the system.")
    @OVERRIDES
    @click.option("--path", metavar="FILE", help="A local system's file; default .samzapy/local.db.")
    @click.option("--bootstrap", metavar="HOST:PORT", help="A Kafka broker; default: that of `samzapy kafka start`.")
    @wraps(command)
    def with_systems(
        *args: Any,
        job: Path | None,
        overrides: tuple[str, ...],
        path: str | None,
        bootstrap: str | None,
        **options: Any,
    ) -> None:
        if job is None and overrides:
            raise click.UsageError("--config overrides keys of a job file: name it with --job")
        if job is not None and (path or bootstrap):
            raise click.UsageError("--job says where the systems are; leave out --path and --bootstrap")
        config = None if job is None else load_job(job, pairs(overrides))
        command(*args, systems=Systems(config, path, bootstrap), **options)

    return with_systems


def _address(text: str) -> SystemStream:
    """`system.stream`. Raises click's error for anything else."""
    try:
        return SystemStream.parse(text)
    except ValueError as cause:
        raise click.BadParameter(str(cause), param_hint="ADDRESS") from cause


#: Records that are sent together, and bytes that are read together, at the most.
_BATCH, _CHUNK = 1_000, 65_536
_key_serde = click.option("--key-serde", metavar="NAME", help="Serde of keys; default the job's, else string.")
_msg_serde = click.option("--msg-serde", metavar="NAME", help="Serde of messages; default the job's, else string.")


@click.group()
def topic() -> None:
    """Create, list, describe, read and write streams.

    Write a stream as SYSTEM.STREAM. With --job the system is one of the job file. Without --job it is the local system
    of this folder, or its development Kafka if SYSTEM is kafka. --bootstrap names another broker.
    """


@topic.command()
@_addressed
@click.argument("address")
@click.option("--partitions", type=click.IntRange(1, 100_000), required=True, help="The number of partitions.")
@click.option(
    "--topic-config", "texts", multiple=True, metavar="KEY=VALUE", help="A topic setting, e.g. cleanup.policy=compact."
)
@click.option("--replication-factor", type=click.IntRange(1, 32_767), help="Copies; default: the job's or system's.")
def create(
    address: str, systems: Systems, partitions: int, texts: tuple[str, ...], replication_factor: int | None
) -> None:
    """Create a stream. An existing stream is an error, and stays unchanged.

    With --job the stream gets the topic settings of the job file; --topic-config overrides them.
    """
    stream = _address(address)
    settings = systems.settings(stream.system, stream)
    spec = new_stream(settings, stream.stream, partitions, pairs(texts, "--topic-config"), replication_factor)
    with stream_admin(settings) as admin:
        if not admin.create(spec):
            raise EnvironmentFailure(f"{stream} exists already")
    click.echo(f"created {stream} with {counted(partitions, 'partition')}")


@topic.command("list")
@JSON
@_addressed
@click.argument("system", required=False)
def list_streams(system: str | None, systems: Systems) -> None:
    """List the streams of SYSTEM. Without SYSTEM, list those of all systems of the job, or of the local system."""
    usual = list(systems.config.systems) if systems.config else ["kafka" if systems.bootstrap else "local"]
    named = [system] if system else usual
    rows = []
    for name in named:
        with stream_admin(systems.settings(name)) as admin:
            for stream in admin.list_streams():
                description = admin.describe(stream)
                if description is not None:
                    policy = "?" if description.hidden else description.config.get("cleanup.policy", "")
                    rows.append((f"{name}.{stream}", description.partitions, policy))
    table(f"Streams of {', '.join(named)}", ("stream", "partitions", "policy"), rows)


@topic.command()
@JSON
@_addressed
@click.argument("address")
def describe(address: str, systems: Systems) -> None:
    """Show a stream's partitions with their offsets, and its configuration."""
    stream = _address(address)
    with stream_admin(systems.settings(stream.system)) as admin:
        result = admin.describe(stream.stream)
        if result is None:
            raise UnknownStream(*stream)
        ssps = [SystemStreamPartition(*stream, number) for number in range(result.partitions)]
        ranges = admin.offsets(ssps)
    rows = [(ssp.partition, *ranges[ssp], ranges[ssp].upcoming - ranges[ssp].oldest) for ssp in ssps]
    table(f"{stream} (id {result.stream_id})", ("partition", "oldest", "upcoming", "offsets"), rows)
    if result.hidden:
        warn(f"the configuration of {stream} is hidden: {result.hidden}")
    else:
        table("Configuration", ("key", "value"), sorted(result.config.items()))


@topic.command()
@_addressed
@click.argument("address")
@click.option("--from", "start", default="oldest", show_default=True, help="oldest, newest, upcoming or an offset.")
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Only this partition; repeatable."
)
@click.option("--max", "most", type=click.IntRange(0), help="Stop after this number of records.")
@click.option("--follow", is_flag=True, help="Wait for further records at the end, until Ctrl-C.")
@click.option("--format", "shape", type=click.Choice(["json", "text"]), default="json", show_default=True)
@JSON
@_key_serde
@_msg_serde
def read(address: str, systems: Systems, most: int | None, shape: str, **options: Any) -> None:
    """Print a stream's records up to its current end. A line is JSON, or key, tab, message."""
    from samzapy.admin.streams import as_text
    from samzapy.serializers import as_json

    stream = _address(address)
    settings = systems.settings(stream.system)
    keys, messages = _literals(systems.config, stream, options["key_serde"], options["msg_serde"])
    what = Range(options["start"], options["partitions"], options["follow"])

    def line(record: Record) -> str:
        position = f"{record.ssp}@{record.offset}"
        key = keys.decode(record.key, position, "key (--key-serde bytes shows any)")
        message = messages.decode(record.value, position, "message (--msg-serde bytes shows any)")
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
@_addressed
@click.argument("address")
@click.option("--key", help="The key of every message. Each line is then a whole message.")
@click.option("--partition", type=click.IntRange(0), help="The partition; default: by the key's hash.")
@click.option("--null", metavar="TEXT", help="A message with exactly this text becomes a null (a deletion).")
@_key_serde
@_msg_serde
def write(address: str, systems: Systems, **options: Any) -> None:
    """Write the lines of standard input. A line is key, tab, message. A line without a tab is a message without a
    key."""
    from samzapy.api.system import OutgoingRecord

    stream = _address(address)
    settings = systems.settings(stream.system)
    keys, messages = _literals(systems.config, stream, options["key_serde"], options["msg_serde"])

    def outgoing(number: int, line: bytes) -> OutgoingRecord:
        key, message = _split(_text(line, f"line {number}"), options["key"])
        place = f"line {number}{' (no tab, so no key)' if key is None else ''}"
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
        try:
            for lines in arrived(sys.stdin.buffer):
                producer.send([outgoing(number, line) for number, line in enumerate(lines, written + 1)])
                written += len(lines)
                if not has_more(sys.stdin.buffer):
                    producer.flush()
        except SerdeError as error:
            if not written:
                raise
            producer.flush()
            raise SerdeError(f"{error}; the first {written} records were written") from error
        producer.flush()
    click.echo(f"wrote {counted(written, 'record')} to {stream}", err=True)


def has_more(source: IO[bytes]) -> bool:
    """Whether more has arrived, or the end. Of what the system does not know it is true."""
    try:
        return bool(select.select([source], [], [], 0)[0])
    except OSError:
        return True


def arrived(source: IO[bytes]) -> Iterator[list[bytes]]:
    """The lines, as many as have arrived together, `_BATCH` at the most: no line waits for the next one."""
    rest = b""
    while chunk := source.read1(_CHUNK):  # type: ignore[attr-defined]  # standard input is buffered
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (lines[at : at + _BATCH] for at in range(0, len(lines), _BATCH))
    if rest:
        yield [rest]


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
        # A file from Windows may begin with a byte order mark.
        return line.rstrip(b"\r").decode("utf-8-sig" if place == "line 1" else "utf-8")
    except UnicodeDecodeError as cause:
        raise SerdeError(f"{place}: not UTF-8 (byte 0x{line[cause.start]:02x})") from cause


def _split(line: str, key: str | None) -> tuple[str | None, str]:
    if key is not None:
        return key, line
    first, tab, rest = line.partition("\t")
    return (first, rest) if tab else (None, line)
