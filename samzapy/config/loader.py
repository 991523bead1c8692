"""Loads a job file: read, override, resolve references, parse, check, and report all problems at
once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import SystemSettings
from samzapy.config.checkpoint import parse_state_checkpoint
from samzapy.config.job import (
    JobConfig,
    PlacementConfig,
    check_changelogs,
    logged_base_dir,
    parse_job_clock,
    parse_links,
    parse_spark,
    timers_store,
)
from samzapy.config.known_keys import check_keys
from samzapy.config.patterns import InputPattern, of_rewriters, written_out
from samzapy.config.reading import properties
from samzapy.config.reading.classes import SYSTEMS
from samzapy.config.reading.keys import Reader, split_list
from samzapy.config.reading.properties import Masked, References
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.store import parse_stores
from samzapy.config.streams.serdes import check_serde, parse_serdes, with_schema_files
from samzapy.config.streams.stream import (
    EVERY,
    StreamConfig,
    StreamKeys,
    StreamNames,
    check_system,
    parse_stream_ids,
    parse_streams,
    stream_settings,
)
from samzapy.config.streams.systems import parse_database, parse_systems
from samzapy.config.supervision import LogConfig, QueryConfig, SupervisionConfig, parse_reporters
from samzapy.config.task import TaskConfig, parse_task
from samzapy.errors import ConfigError, raise_if_any
from samzapy.plugins import PluginError, import_also_from, load_name


def load_job(
    source: Path | str | Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
) -> JobConfig:
    """Load and check the job of a `.properties` file (by path), of flat pairs, or of a pipeline (`module:pipeline`),
    with `overrides` on top.

    `${env:NAME}` takes variables from `environ` (default: the process's). Unknown keys and keys that are set twice are
    warnings, or problems if `strict`. Reads only the file, and the schemas that it names, and imports the pipeline of
    `app.class`: no other code of the user, no connection. Raises ConfigError with all problems.
    """
    variables = os.environ if environ is None else environ
    folder = None if isinstance(source, Mapping) else Path(source).absolute().parent
    if folder is not None and ":" in Path(source).name and not Path(source).exists():  # type: ignore[arg-type]
        source, folder = {_APPLICATION: str(source)}, Path.cwd()
    read = _read(source, overrides or {}, variables, folder, strict=strict)
    references = References(read.values, variables)
    texts = with_schema_files(references.values, read.values)
    reader = Reader(texts.values, references.secret, references.broken)
    reader.problems += [*read.problems, *references.problems, *texts.problems]
    reader.warnings += read.warnings
    config = _parse(reader, texts.raw, variables)
    check_changelogs(reader, config)
    check_keys(reader, config, strict=strict)
    raise_if_any(reader.problems)
    return replace(config, warnings=tuple(reader.warnings), folder=folder)


def with_inputs(config: JobConfig, matches: Mapping[InputPattern, Iterable[SystemStream]]) -> JobConfig:
    """The job with the streams `matches` as its inputs, in place of the patterns, also in the file that containers get.

    Raises ConfigError.
    """
    loaded = load_job(written_out(config.raw, config.task.inputs, matches))
    return replace(
        config,
        task=replace(config.task, inputs=loaded.task.inputs, patterns=(), refresh_ms=None),
        systems=loaded.systems,
        streams=loaded.streams,
        stream_ids=loaded.stream_ids,
        raw=loaded.raw,
        resolved=loaded.resolved,
    )


def with_every_partition(config: JobConfig, counts: Mapping[SystemStream, int]) -> JobConfig:
    """The job with the partitions of the streams that `task.broadcast.inputs` names as `#*`, also in the file that
    containers get. `counts`: their numbers of partitions."""
    named = [ssp for ssp in config.task.broadcast_inputs if ssp.partition != EVERY]
    ssps = {*named, *(SystemStreamPartition(*stream, number) for stream in counts for number in range(counts[stream]))}
    keys = {"task.broadcast.inputs": ",".join(f"{ssp.system_stream}#{ssp.partition}" for ssp in sorted(ssps))}
    loaded = load_job({**config.raw, **keys})
    task = replace(config.task, broadcast_inputs=frozenset(ssps))
    return replace(config, task=task, raw=loaded.raw, resolved=loaded.resolved)


def as_read(config: JobConfig, stream: SystemStream) -> JobConfig:
    """The job as it reads the stream: if a pattern matches it, with the keys of the pattern. Asks no system."""
    pattern = next((item for item in config.task.patterns if item.matches(stream)), None)
    return config if pattern is None else with_inputs(config, {pattern: [stream]})


#: Samza's key for an application, here for a pipeline. With a `task.class` it has no effect.
_APPLICATION = "app.class"


def _read(
    given: Path | str | Mapping[str, str],
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    folder: Path | None,
    *,
    strict: bool,
) -> properties.Source:
    read = properties.read(given, strict=strict)
    values = {**read.values, **properties.read(overrides).values}
    if values.get(_APPLICATION) and not values.get("task.class"):
        values = _of_application(values, environ, folder)
    rewritten = of_rewriters(values, environ)
    return properties.Source(
        rewritten.values, (*read.warnings, *rewritten.warnings), (*read.problems, *rewritten.problems)
    )


def _of_application(values: Mapping[str, str], environ: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    """The keys that the pipeline of `app.class` stands for, below those that are given. Raises ConfigError."""
    resolved = References(values, environ).values
    path = resolved.get(_APPLICATION, values[_APPLICATION])
    shipped = [Path(item).resolve() for item in split_list(resolved.get("job.spark.py.files", ""))]
    places = [str(item.parent if item.suffix == ".py" else item) for item in shipped]
    import_also_from([*places, *([] if folder is None else [str(folder)])])
    given = {key: value for key, value in values.items() if key != _APPLICATION}
    try:
        result = load_name(path)
    except PluginError as cause:
        raise ConfigError.of(_APPLICATION, path, str(cause)) from cause
    # Known by its plan: this package is below that of pipelines.
    keys = getattr(getattr(result, "plan", None), "keys", None)
    if keys is None:
        message = f"expected a samzapy.Pipeline, got {type(result).__name__}; a task belongs into task.class"
        raise ConfigError.of(_APPLICATION, path, message)
    return {**keys(given), "task.class": path}


def _parse(reader: Reader, raw: Mapping[str, str], environ: Mapping[str, str]) -> JobConfig:
    reader.value(JobConfig, "name")  # its problem comes first
    systems = parse_systems(reader)
    default_system = _system(reader, "default_system", "job.default.system", systems)
    changelog_system = _system(reader, "changelog_system", "job.changelog.system", systems) or default_system
    serdes = parse_serdes(reader)
    ids = parse_stream_ids(reader, default_system, systems)
    names = StreamNames(ids, default_system, systems)
    task = parse_task(reader, names)
    _check_listing(reader, task, systems)
    undoing = task.errors.undoes_changes
    stores = parse_stores(reader, names, changelog_system, serdes, task.reads, undoing=undoing)
    _check_defaults(reader, systems, serdes)
    streams = parse_streams(reader, ids, _mentioned(task, stores, systems), serdes)
    timers = timers_store(reader, stores)
    return reader.read(
        JobConfig,
        task=task,
        systems=_with_streams(reader, systems, streams.values()),
        streams=streams,
        stores=stores,
        timers_store=timers,
        serdes=serdes,
        logged_store_base_dir=logged_base_dir(reader, environ),
        page_links=parse_links(reader),
        placement=reader.read(PlacementConfig),
        spark=parse_spark(reader),
        clock=parse_job_clock(reader, fires=timers is not None or _has_senders(task, streams)),
        state_checkpoint=parse_state_checkpoint(reader, task.checkpoint, default_system),
        metrics_reporters=parse_reporters(reader, reader.value(JobConfig, "metrics_reporters"), names),
        supervision=reader.read(SupervisionConfig, log=reader.read(LogConfig), query=reader.read(QueryConfig)),
        stream_ids=ids,
        raw=Masked(raw, reader.secret),
        resolved=Masked(reader.values, reader.secret),
    )


def _check_listing(reader: Reader, result: TaskConfig, known: Mapping[str, SystemSettings]) -> None:
    """Note the patterns on a database: its streams are the tables that the job file describes."""
    for pattern in result.patterns:
        settings = known.get(pattern.stream.system)
        if settings is not None and settings.factory == SYSTEMS.short["database"]:
            message = f"system '{settings.name}' is a database, where every table needs its own keys: name the tables"
            reader.problem("task.inputs", message, str(pattern))


def _has_senders(result: TaskConfig, known: Mapping[SystemStream, StreamConfig]) -> bool:
    """Whether some input is an intermediate stream."""
    inputs = result.all_inputs.union(pattern.stream for pattern in result.patterns)
    return any(stream in known and known[stream].intermediate for stream in inputs)


def _system(reader: Reader, field: str, name: str, known: Mapping[str, SystemSettings]) -> str | None:
    system: str | None = reader.value(JobConfig, field)
    if system is not None:
        check_system(reader, name, system, known)
    return system


def _with_streams(
    reader: Reader, systems: Mapping[str, SystemSettings], streams: Collection[StreamConfig]
) -> dict[str, SystemSettings]:
    complete = {}
    for name, settings in systems.items():
        complete[name] = replace(settings, streams=stream_settings(name, streams))
        if settings.factory == SYSTEMS.short["database"]:
            parse_database(reader, complete[name])
    return complete


def _mentioned(
    result: TaskConfig, found_stores: Mapping[str, StoreConfig], known: Mapping[str, SystemSettings]
) -> Iterator[SystemStream]:
    sources = (stream for store in found_stores.values() if store.source for stream in store.source.all_streams)
    broadcast, patterns = (ssp.system_stream for ssp in result.broadcast_inputs), (p.stream for p in result.patterns)
    for stream in (*result.inputs, *broadcast, *patterns, *sources):
        if stream.system in known:
            yield stream


def _check_defaults(reader: Reader, known: Mapping[str, SystemSettings], serdes: dict[str, str]) -> None:
    for system in known:
        for field in ("key_serde", "msg_serde"):
            where = reader.place(StreamConfig, field, system=system)
            check_serde(reader, serdes, where, reader.value(StreamConfig, field, system=system))
        reader.value(StreamConfig, "offset_default", system=system)
        reader.value(StreamKeys, "replication_factor", system=system)
