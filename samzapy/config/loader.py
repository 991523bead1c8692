"""From a job file to a `JobConfig`: read, override, resolve, parse, and only then complain, about everything at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from samzapy.api.stream import SystemStream
from samzapy.api.system import SystemSettings
from samzapy.config import (
    asynchronous,
    checkpoint,
    choosers,
    database,
    errors,
    job,
    job_clock,
    metrics,
    own_streams,
    placement,
    rocksdb,
    serializers,
    source,
    spark,
    state_checkpoint,
    store_sources,
    stores,
    streams,
    systems,
    task,
    timers,
    views,
)
from samzapy.config.classes import ENGINES, SYSTEMS
from samzapy.config.error_policy import Stage
from samzapy.config.job import JobConfig
from samzapy.config.keys import Key
from samzapy.config.kinds import split_list
from samzapy.config.legacy import with_todays_names
from samzapy.config.reader import Reader
from samzapy.config.references import References
from samzapy.config.secrets import Masked
from samzapy.config.stores import StoreConfig
from samzapy.config.unknown import KnownKeys
from samzapy.config.unsupported import is_refusable, no_effect, refused
from samzapy.errors import ConfigError

#: Every key samzapy reads, by topic: what documentation lists and a misspelt key is compared with.
ALL_KEYS: tuple[Key[Any], ...] = (
    *job.KEYS,
    *job_clock.KEYS,
    *placement.KEYS,
    *spark.KEYS,
    *task.KEYS,
    *asynchronous.KEYS,
    *choosers.KEYS,
    *errors.KEYS,
    *checkpoint.KEYS,
    *state_checkpoint.KEYS,
    *systems.KEYS,
    *database.KEYS,
    *streams.KEYS,
    *serializers.KEYS,
    *stores.KEYS,
    *rocksdb.KEYS,
    *views.KEYS,
    *timers.KEYS,
    *metrics.KEYS,
)


def load_job(
    source: Path | str | Mapping[str, str],
    overrides: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
) -> JobConfig:
    """The checked job of a `.properties` file (by path) or of flat pairs, `overrides` on top.

    `environ` (default: the process's) is what `${env:NAME}` looks in. Nothing is imported, opened or connected to but
    the file itself. Unknown keys and keys set twice are warnings, or problems when `strict`. Raises ConfigError with all problems.
    """
    variables = os.environ if environ is None else environ
    read = _read(source, overrides or {}, strict=strict)
    references = References(read.values, variables)
    renamed = with_todays_names(references.values, references.secret)
    reader = Reader(renamed.values, renamed.secret, references.broken)
    reader.problems += [*read.problems, *references.problems]
    reader.warnings += [*read.warnings, *renamed.warnings]
    config = _parse(reader, read.values, variables)
    own_streams.check_changelogs(reader, config)
    _check_unknown(reader, config, strict=strict)
    if reader.problems:
        raise ConfigError(reader.problems)
    return replace(config, warnings=tuple(reader.warnings))


def _read(given: Path | str | Mapping[str, str], overrides: Mapping[str, str], *, strict: bool) -> source.Source:
    read = source.read(given, strict=strict)
    on_top = source.read(overrides).values
    return source.Source({**read.values, **on_top}, read.warnings, read.problems)


def _parse(reader: Reader, raw: Mapping[str, str], environ: Mapping[str, str]) -> JobConfig:
    name, job_id = job.parse_identity(reader)
    found_systems = systems.parse_systems(reader)
    default_system = _system(reader, job.DEFAULT_SYSTEM, found_systems)
    changelog_system = _system(reader, job.CHANGELOG_SYSTEM, found_systems) or default_system
    serdes = serializers.parse_serdes(reader)
    ids = streams.parse_stream_ids(reader, default_system, found_systems)
    found_task = task.parse_task(reader, ids, default_system, found_systems)
    undoing = not found_task.errors.policies[Stage.PROCESS].only_fails
    found_stores = {
        name: _with_source(reader, store, ids, default_system, found_systems, found_task)
        for name, store in stores.parse_stores(reader, changelog_system, found_systems, serdes, undoing=undoing).items()
    }
    _check_default_serdes(reader, found_systems, serdes)
    logged, non_logged = job.parse_base_dirs(reader, environ)
    found_streams = streams.parse_streams(reader, ids, _mentioned(found_task, found_stores, found_systems), serdes)
    return JobConfig(
        name=name,
        id=job_id,
        task=found_task,
        systems=_with_streams(reader, found_systems, found_streams, ids),
        streams=found_streams,
        stores=found_stores,
        timers_store=timers.parse_timers(reader, found_stores),
        serdes=serdes,
        container_count=reader.get(job.CONTAINER_COUNT),
        grouper=reader.get(job.GROUPER),
        default_system=default_system,
        logged_store_base_dir=logged,
        non_logged_store_base_dir=non_logged,
        startpoints=reader.get(job.STARTPOINTS),
        placement=placement.parse_placement(reader),
        spark=spark.parse_spark(reader),
        clock=job_clock.parse_job_clock(reader),
        state_checkpoint=_state_checkpoint(reader, found_task, default_system, found_systems),
        metrics_reporters=metrics.parse_metrics(reader, ids, default_system, found_systems),
        stream_ids=ids,
        raw=Masked(raw, reader.secret),
        resolved=Masked(reader.values, reader.secret),
    )


def _state_checkpoint(
    reader: Reader, found: task.TaskConfig, default_system: str | None, known: Mapping[str, SystemSettings]
) -> state_checkpoint.StateCheckpointConfig:
    system = _system(reader, state_checkpoint.SYSTEM, known)
    beside = found.checkpoint.system if found.checkpoint else None
    return state_checkpoint.parse_state_checkpoint(reader, system or beside or default_system)


def _system(reader: Reader, key: Key[str | None], known: Mapping[str, SystemSettings]) -> str | None:
    system = reader.get(key)
    if system is not None:
        streams.check_system(reader, key.name, system, known)
    return system


def _with_streams(
    reader: Reader,
    found_systems: Mapping[str, SystemSettings],
    found_streams: Iterable[SystemStream],
    ids: Mapping[str, SystemStream],
) -> dict[str, SystemSettings]:
    told = {}
    for name, settings in found_systems.items():
        told[name] = replace(settings, streams=streams.stream_settings(reader, name, found_streams, ids))
        if settings.factory == SYSTEMS.short["database"]:
            database.parse_database(reader, told[name])
    return told


def _with_source(
    reader: Reader,
    store: StoreConfig,
    ids: Mapping[str, SystemStream],
    default_system: str | None,
    found_systems: Mapping[str, SystemSettings],
    found_task: task.TaskConfig,
) -> StoreConfig:
    found = store_sources.parse_source(reader, store.name, ids, default_system, found_systems, found_task.inputs)
    if found is None:
        return store
    store_sources.check_sourced(
        reader, store.name, logged=store.changelog is not None, expiring=store.ttl_ms is not None
    )
    return replace(store, source=found)


def _mentioned(
    found: task.TaskConfig, found_stores: Mapping[str, StoreConfig], known: Mapping[str, SystemSettings]
) -> Iterator[SystemStream]:
    sources = (stream for store in found_stores.values() if store.source for stream in store.source.all_streams)
    for stream in (*found.inputs, *(ssp.system_stream for ssp in found.broadcast_inputs), *sources):
        if stream.system in known:
            yield stream


def _check_default_serdes(reader: Reader, known: Mapping[str, SystemSettings], serdes: dict[str, str]) -> None:
    for system in known:
        for key in (systems.DEFAULT_KEY_SERDE, systems.DEFAULT_MSG_SERDE):
            serializers.check_serde(reader, serdes, reader.where(key, system=system), reader.get(key, system=system))


def _check_unknown(reader: Reader, config: JobConfig, *, strict: bool) -> None:
    known = KnownKeys(ALL_KEYS, _names(config), list(_open_prefixes(config.systems, config.stores)))
    suspects = []
    for key, value in reader.values.items():
        reason = refused(key, value)
        if reason is not None:
            reader.problem(key, reason, value)
        elif (reason := no_effect(key)) is not None and not key.startswith("yarn.container.count"):
            reader.warn(f"{key}: has no effect in samzapy: {reason}")
        elif not is_refusable(key):
            suspects.append(key)
    for key, nearest in known.unknown(suspects):
        message = f"unknown key{f'; did you mean {nearest}?' if nearest else ''}"
        if strict:
            reader.problem(key, message)
        else:
            reader.warn(f"{key}: {message}")


def _names(config: JobConfig) -> dict[str, frozenset[str]]:
    return {
        "system": frozenset(config.systems),
        "stream": frozenset(config.stream_ids),
        "physical": frozenset(stream.stream for stream in config.streams),
        "store": frozenset(config.stores),
        "serde": frozenset(config.serdes),
        "reporter": frozenset(split_list(config.resolved.get(metrics.REPORTERS.name, ""))),
    }


def _open_prefixes(
    found_systems: Mapping[str, SystemSettings], found_stores: Mapping[str, StoreConfig]
) -> Iterator[str]:
    """Below these, a plug-in that is not ours reads keys that only it knows."""
    ours = {*SYSTEMS.short.values(), *ENGINES.short.values()}
    for settings in found_systems.values():
        if settings.factory not in ours:
            yield f"systems.{settings.name}."
    for store in found_stores.values():
        if store.factory not in ours:
            yield f"stores.{store.name}."
