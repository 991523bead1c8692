"""Loads a job file: read, override, resolve references, replace retired keys, parse, check, and report all problems at
once.

Retired keys are the names that keys of stores had before Samza 0.8, and older names of samzapy's keys:

    job.clock.idle.ms           task.watermark.idle.timeout.ms, which timers and watermarks obey as well

Below `stores.NAME.`:

    batch.size                  write.batch.size
    serde                       key.serde and msg.serde
    system                      part of changelog: SYSTEM.STREAM
    leveldb.block.cache.size    container.cache.size.bytes, for all tasks of a container together
    leveldb.write.buffer.size   container.write.buffer.size.bytes, likewise
    leveldb.block.size          rocksdb.block.size.bytes
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.config import event_time, job, metrics, own_streams, spark, supervision
from samzapy.config.job import JobConfig
from samzapy.config.known_keys import check_keys
from samzapy.config.reading import properties
from samzapy.config.reading.classes import SYSTEMS
from samzapy.config.reading.keys import Key
from samzapy.config.reading.properties import References
from samzapy.config.reading.reader import Reader
from samzapy.config.reading.secrets import Masked
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.sources import check_sourced, parse_source
from samzapy.config.stores.store import parse_stores
from samzapy.config.streams import database, systems
from samzapy.config.streams.schemas import with_schema_files
from samzapy.config.streams.serdes import check_serde, parse_serdes
from samzapy.config.streams.stream import (
    StreamConfig,
    StreamNames,
    check_system,
    parse_stream_ids,
    parse_streams,
    stream_settings,
)
from samzapy.config.tasks import TaskConfig, checkpoint, task
from samzapy.config.tasks.patterns import InputPattern, of_rewriters, written_out
from samzapy.errors import ConfigError

_STORES = "stores."
_FIRST_ENGINES = frozenset({"KeyValueStorageEngineFactory", "LevelDbKeyValueStorageEngineFactory"})


def _as_it_is(value: str) -> str:
    return value


def _compression(value: str) -> str:
    return {"true": "snappy", "false": "none"}.get(value.strip().lower(), value)


#: Retired name below `stores.NAME.` -> the present names, and the translation of the value.
_RENAMED: Mapping[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "batch.size": (("write.batch.size",), _as_it_is),
    "serde": (("key.serde", "msg.serde"), _as_it_is),
    "leveldb.block.cache.size": (("container.cache.size.bytes",), _as_it_is),
    "leveldb.write.buffer.size": (("container.write.buffer.size.bytes",), _as_it_is),
    "leveldb.block.size": (("rocksdb.block.size.bytes",), _as_it_is),
    "leveldb.compress": (("rocksdb.compression",), _compression),
}


#: Retired names of samzapy -> the present names, and the change of meaning.
_OURS = {
    "job.clock.idle.ms": ("task.watermark.idle.timeout.ms", ", which timers and watermarks obey as well"),
}


class Renamed(NamedTuple):
    """The values under the present names, a warning for each replaced name, and the keys with secret values."""

    values: dict[str, str]
    warnings: list[str]
    secret: frozenset[str]


def with_todays_names(values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> Renamed:
    """Replace retired names. `secret` are the keys with secret values.

    LevelDB's memory was per store, RocksDB's is shared by the tasks of a container; the warning says so.
    """
    found = dict(values)
    warnings: list[str] = []
    hidden = set(secret)
    for key, (name, change) in _OURS.items():
        if key in found:
            value = found.pop(key)
            found.setdefault(name, value)
            hidden |= {name} if key in secret else set()
            warnings.append(f"{key}: retired, use {name} instead{change}")
    for key in values:
        store, leaf = _split(key, values)
        if leaf in _RENAMED:
            names, translate = _RENAMED[leaf]
            for name in names:
                found.setdefault(f"{store}.{name}", translate(values[key]))
                hidden |= {f"{store}.{name}"} if key in secret else set()
            del found[key]
            now = " and ".join(f"{store}.{name}" for name in names)
            shared = ", for all tasks of a container together" if names[0].startswith("container.") else ""
            warnings.append(f"{key}: retired, use {now} instead{shared}")
        elif leaf == "system":
            del found[key]
            hidden |= {f"{store}.changelog"} if key in secret else set()
            warnings.append(f"{key}: {_into_changelog(found, store, values[key])}")
        elif leaf == "factory" and _is_first_engine(values[key]):
            found[key] = "rocksdb"
            warnings.append(f"{key}: LevelDB is not supported, rocksdb keeps the store instead")
    return Renamed(found, warnings, frozenset(hidden))


def _split(key: str, values: Mapping[str, str]) -> tuple[str, str]:
    """`stores.NAME` and the rest, for a store that has a factory; two empty texts otherwise."""
    if key.startswith(_STORES):
        for leaf in (*_RENAMED, "system", "factory"):
            store = key.removesuffix(f".{leaf}")
            if store != key and f"{store}.factory" in values:
                return store, leaf
    return "", ""


def _into_changelog(found: dict[str, str], store: str, system: str) -> str:
    changelog = found.get(f"{store}.changelog", "").strip()
    if changelog and "." not in changelog:
        found[f"{store}.changelog"] = f"{system}.{changelog}"
        return f"retired, use {store}.changelog={system}.{changelog} instead"
    return f"has no effect: {store}.changelog {'names the system already' if changelog else 'is not set'}"


def _is_first_engine(value: str) -> bool:
    java = value.strip().startswith(("samza.", "org.apache.samza."))
    return java and value.strip().rpartition(".")[2] in _FIRST_ENGINES


#: The systems with keys that are checked together with the rest of the file. A factory's own `check` comes later.
_OWN_KEYS: Mapping[str, Callable[[Reader, SystemSettings], object]] = {
    SYSTEMS.short["database"]: database.parse_database,
}


def load_job(
    source: Path | str | Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
) -> JobConfig:
    """Load and check the job of a `.properties` file (by path) or of flat pairs, with `overrides` on top.

    `${env:NAME}` takes variables from `environ` (default: the process's). Unknown keys and keys that are set twice are
    warnings, or problems if `strict`. Reads only the file, and the schemas that it names: no import of user code, no
    connection. Raises ConfigError with all problems.
    """
    variables = os.environ if environ is None else environ
    read = _read(source, overrides or {}, variables, strict=strict)
    references = References(read.values, variables)
    renamed = with_todays_names(references.values, references.secret)
    texts = with_schema_files(renamed.values, read.values)
    reader = Reader(texts.values, renamed.secret, references.broken)
    reader.problems += [*read.problems, *references.problems, *texts.problems]
    reader.warnings += [*read.warnings, *renamed.warnings]
    config = _parse(reader, texts.raw, variables)
    own_streams.check_changelogs(reader, config)
    check_keys(reader, config, strict=strict)
    if reader.problems:
        raise ConfigError(reader.problems)
    folder = None if isinstance(source, Mapping) else Path(source).absolute().parent
    return replace(config, warnings=tuple(reader.warnings), folder=folder)


def with_inputs(config: JobConfig, found: Mapping[InputPattern, Iterable[SystemStream]]) -> JobConfig:
    """The job with the streams `found` as its inputs, in place of the patterns, also in the file that containers get.

    Raises ConfigError.
    """
    loaded = load_job(written_out(config.raw, task.INPUTS.name, config.task.inputs, found))
    return replace(
        config,
        task=replace(config.task, inputs=loaded.task.inputs, patterns=(), refresh_ms=None),
        systems=loaded.systems,
        streams=loaded.streams,
        stream_ids=loaded.stream_ids,
        raw=loaded.raw,
        resolved=loaded.resolved,
    )


def as_read(config: JobConfig, stream: SystemStream) -> JobConfig:
    """The job as it reads the stream: if a pattern matches it, with the keys of the pattern. Asks no system."""
    pattern = next((each for each in config.task.patterns if each.matches(stream)), None)
    return config if pattern is None else with_inputs(config, {pattern: [stream]})


def _read(
    given: Path | str | Mapping[str, str], overrides: Mapping[str, str], environ: Mapping[str, str], *, strict: bool
) -> properties.Source:
    read = properties.read(given, strict=strict)
    on_top = properties.read(overrides).values
    rewritten = of_rewriters({**read.values, **on_top}, task.INPUTS.name, environ)
    return properties.Source(
        rewritten.values, (*read.warnings, *rewritten.warnings), (*read.problems, *rewritten.problems)
    )


def _parse(reader: Reader, raw: Mapping[str, str], environ: Mapping[str, str]) -> JobConfig:
    name, job_id = job.parse_identity(reader)
    found_systems = systems.parse_systems(reader)
    default_system = _system(reader, job.DEFAULT_SYSTEM, found_systems)
    changelog_system = _system(reader, job.CHANGELOG_SYSTEM, found_systems) or default_system
    serdes = parse_serdes(reader)
    ids = parse_stream_ids(reader, default_system, found_systems)
    names = StreamNames(ids, default_system, found_systems)
    found_task = task.parse_task(reader, names)
    _check_listing(reader, found_task, found_systems)
    undoing = found_task.errors.undoes_changes
    found_stores = {
        store.name: _with_source(reader, store, names, found_task)
        for store in parse_stores(reader, changelog_system, found_systems, serdes, undoing=undoing).values()
    }
    _check_default_serdes(reader, found_systems, serdes)
    logged, non_logged = job.parse_base_dirs(reader, environ)
    found_streams = parse_streams(reader, ids, _mentioned(found_task, found_stores, found_systems), serdes)
    timers_store = event_time.parse_timers(reader, found_stores)
    return JobConfig(
        name=name,
        id=job_id,
        task=found_task,
        systems=_with_streams(reader, found_systems, found_streams, ids),
        streams=found_streams,
        stores=found_stores,
        timers_store=timers_store,
        serdes=serdes,
        container_count=reader.get(job.CONTAINER_COUNT),
        grouper=reader.get(job.GROUPER),
        default_system=default_system,
        logged_store_base_dir=logged,
        non_logged_store_base_dir=non_logged,
        cache_max_bytes=reader.get(job.CACHE_MAX_BYTES),
        startpoints=reader.get(job.STARTPOINTS),
        page_port=reader.get(job.PAGE_PORT),
        page_hosts=reader.get(job.PAGE_HOSTS),
        handover_ms=reader.get(job.HANDOVER_MS),
        placement=job.parse_placement(reader),
        spark=spark.parse_spark(reader),
        clock=event_time.parse_job_clock(
            reader, fires=timers_store is not None or _has_senders(found_task, found_streams)
        ),
        state_checkpoint=_state_checkpoint(reader, found_task, default_system, found_systems),
        metrics_reporters=metrics.parse_metrics(reader, names),
        prometheus=metrics.parse_prometheus(reader),
        supervision=supervision.parse_supervision(reader, found_stores),
        stream_ids=ids,
        raw=Masked(raw, reader.secret),
        resolved=Masked(reader.values, reader.secret),
    )


def _check_listing(reader: Reader, found: TaskConfig, known: Mapping[str, SystemSettings]) -> None:
    """Note the patterns on a database: its streams are the tables that the job file describes."""
    for pattern in found.patterns:
        settings = known.get(pattern.stream.system)
        if settings is not None and settings.factory == SYSTEMS.short["database"]:
            message = f"system '{settings.name}' is a database, where every table needs its own keys: name the tables"
            reader.problem(task.INPUTS.name, message, str(pattern))


def _has_senders(found: TaskConfig, known: Mapping[SystemStream, StreamConfig]) -> bool:
    """Whether some input is an intermediate stream."""
    inputs = {*found.inputs, *(ssp.system_stream for ssp in found.broadcast_inputs)}
    inputs |= {pattern.stream for pattern in found.patterns}
    return any(stream in known and known[stream].intermediate for stream in inputs)


def _state_checkpoint(
    reader: Reader, found: TaskConfig, default_system: str | None, known: Mapping[str, SystemSettings]
) -> checkpoint.StateCheckpointConfig:
    system = _system(reader, checkpoint.STATE_SYSTEM, known)
    beside = found.checkpoint.system if found.checkpoint else None
    return checkpoint.parse_state_checkpoint(reader, system or beside or default_system)


def _system(reader: Reader, key: Key[str | None], known: Mapping[str, SystemSettings]) -> str | None:
    system = reader.get(key)
    if system is not None:
        check_system(reader, key.name, system, known)
    return system


def _with_streams(
    reader: Reader,
    found_systems: Mapping[str, SystemSettings],
    found_streams: Iterable[SystemStream],
    ids: Mapping[str, SystemStream],
) -> dict[str, SystemSettings]:
    complete = {}
    for name, settings in found_systems.items():
        complete[name] = replace(settings, streams=stream_settings(reader, name, found_streams, ids))
        if settings.factory in _OWN_KEYS:
            _OWN_KEYS[settings.factory](reader, complete[name])
    return complete


def _with_source(reader: Reader, store: StoreConfig, names: StreamNames, found_task: TaskConfig) -> StoreConfig:
    found = parse_source(reader, store.name, names, found_task.reads)
    if found is None:
        return store
    check_sourced(reader, store.name, logged=store.changelog is not None, expiring=store.ttl_ms is not None)
    return replace(store, source=found)


def _mentioned(
    found: TaskConfig, found_stores: Mapping[str, StoreConfig], known: Mapping[str, SystemSettings]
) -> Iterator[SystemStream]:
    sources = (stream for store in found_stores.values() if store.source for stream in store.source.all_streams)
    broadcast, patterns = (ssp.system_stream for ssp in found.broadcast_inputs), (p.stream for p in found.patterns)
    for stream in (*found.inputs, *broadcast, *patterns, *sources):
        if stream.system in known:
            yield stream


def _check_default_serdes(reader: Reader, known: Mapping[str, SystemSettings], serdes: dict[str, str]) -> None:
    for system in known:
        for key in (systems.DEFAULT_KEY_SERDE, systems.DEFAULT_MSG_SERDE):
            check_serde(reader, serdes, reader.where(key, system=system), reader.get(key, system=system))
