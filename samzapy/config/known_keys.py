"""Lists all keys: the keys that samzapy reads, the keys in force in a job, and Samza's keys without effect here.

It also finds unknown keys in a job file, and suggests the nearest known one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from string import Formatter
from typing import Any, NamedTuple

from samzapy.api.system import SystemSettings
from samzapy.config.job import JobClockConfig, JobConfig, PlacementConfig, SparkConfig, TlsConfig
from samzapy.config.reading.classes import ENGINES, SYSTEMS
from samzapy.config.reading.keys import Key, keys_of, split_list, texts_of
from samzapy.config.reading.reader import Reader
from samzapy.config.reading.secrets import Masked
from samzapy.config.samza_keys import is_refusable, no_effect, refused, removed
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.engines import ENGINE_SECTIONS, is_of_another_engine
from samzapy.config.stores.store import STORE_SECTIONS
from samzapy.config.streams import systems
from samzapy.config.streams.database import DatabaseConfig, TableConfig
from samzapy.config.streams.schemas import SchemaSettings
from samzapy.config.streams.serdes import SerdeKeys
from samzapy.config.streams.stream import StreamConfig, StreamKeys
from samzapy.config.streams.systems import SystemKeys
from samzapy.config.supervision import LogConfig, QueryConfig, ReporterConfig, SupervisionConfig
from samzapy.config.tasks.checkpoint import CheckpointConfig, StateCheckpointConfig
from samzapy.config.tasks.error_policy import ErrorKeys
from samzapy.config.tasks.task import AsyncConfig, BatchConfig, ChooserConfig, TaskConfig

#: The dataclasses with keys, by topic.
SECTIONS: tuple[type, ...] = (
    JobConfig,
    PlacementConfig,
    JobClockConfig,
    SparkConfig,
    TlsConfig,
    TaskConfig,
    ChooserConfig,
    AsyncConfig,
    BatchConfig,
    ErrorKeys,
    CheckpointConfig,
    StateCheckpointConfig,
    SystemKeys,
    DatabaseConfig,
    TableConfig,
    StreamConfig,
    StreamKeys,
    SerdeKeys,
    SchemaSettings,
    *STORE_SECTIONS,
    *ENGINE_SECTIONS,
    ReporterConfig,
    SupervisionConfig,
    LogConfig,
    QueryConfig,
)
#: Every key that samzapy reads. The documentation lists them; an unknown key is compared with them.
ALL_KEYS = keys_of(*SECTIONS)
#: Keys with another first part belong to the user, unless they look like a misspelling.
_OURS = frozenset({"app", "container", "job", "task", "systems", "streams", "serializers", "stores", "metrics"})
_NEAR, _VERY_NEAR = 0.75, 0.85


def texts() -> Mapping[str, str]:
    """What each key is for, by its name."""
    return texts_of(*SECTIONS)


class KnownKeys:
    """The keys that have a meaning in a job. `known` are the job's names by placeholder. Plug-ins define the keys below
    `open_prefixes`, so these are never unknown."""

    def __init__(
        self, keys: Sequence[Key[Any]], known: Mapping[str, frozenset[str]], open_prefixes: Sequence[str] = ()
    ) -> None:
        names = dict.fromkeys(name for key in keys for name in key.names)
        self._exact = [name for name in names if not name.endswith(".*")]
        self._known = known
        # Most keys have no placeholder: a set finds them at once.
        self._plain = frozenset(name for name in self._exact if "{" not in name)
        self._shaped = [name for name in self._exact if name not in self._plain]
        self._prefixes = tuple(open_prefixes)
        self._open = [name for name in names if name.endswith(".*")]
        self._patterns: dict[str, re.Pattern[str]] = {}

    def unknown(self, keys: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """Every unknown key, with the nearest known key or None."""
        unplain = [key for key in keys if key not in self._plain]
        suspects = [key for key in unplain if not any(self._fits(name, key) for name in self._shaped)]
        if not suspects:
            return
        candidates = self._candidates()
        for key in suspects:
            first = key.partition(".")[0]
            if self._is_open(key):
                continue
            near = difflib.get_close_matches(key, candidates, n=1, cutoff=_NEAR)
            nearest = near[0] if near else None
            if first in _OURS or (nearest and difflib.SequenceMatcher(None, key, nearest).ratio() >= _VERY_NEAR):
                yield key, nearest

    def _is_open(self, key: str) -> bool:
        if key.startswith(self._prefixes):
            return True
        return ".samza." not in key and any(self._fits(name, key) for name in self._open)

    def _fits(self, name: str, key: str) -> bool:
        """Whether the key matches the name. Compiling all patterns would take longer than reading the job file."""
        before = name.partition("{")[0].removesuffix("*")
        behind = "" if name.endswith("*") else name.rpartition("}")[2]
        if not (key.startswith(before) and key.endswith(behind)):
            return False
        if name not in self._patterns:
            self._patterns[name] = pattern(name, self._known)
        return self._patterns[name].fullmatch(key) is not None

    def _candidates(self) -> list[str]:
        result: list[str] = []
        for name in self._exact:
            built = [name]
            for placeholder, names in self._known.items():
                mark = f"{{{placeholder}}}"
                built = [text.replace(mark, value) for text in built for value in (names if mark in text else [""])]
            result += [text for text in built if "{" not in text]
        return result


def pattern(name: str, known: Mapping[str, frozenset[str]]) -> re.Pattern[str]:
    """A regular expression for a key's name. `known` has the names for each placeholder; without them it is one
    segment."""
    out = []
    for part in re.split(r"(\{\w+\}|\*$)", name):
        if part == "*":
            out.append(".+")
        elif part.startswith("{"):
            options = known.get(part[1:-1])
            out.append("[^.]+" if options is None else f"(?:{'|'.join(map(re.escape, sorted(options))) or '(?!)'})")
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))


def check_keys(reader: Reader, config: JobConfig, *, strict: bool) -> None:
    """Note a problem for each refused key, and warnings for keys without effect and unknown ones (problems if
    `strict`)."""
    known = KnownKeys(ALL_KEYS, _names(config), list(_open_prefixes(config.systems, config.stores)))
    suspects = []
    for key, value in reader.values.items():
        reason = refused(key, value) or removed(key)
        if reason is not None:
            reader.problem(key, reason, value)
        elif (reason := no_effect(key)) is not None:
            reader.warn(f"{key}: has no effect in samzapy: {reason}")
        elif not is_refusable(key):
            suspects.append(key)
    taken = _topic_keys(config.systems)
    unknown = {key: "not a topic setting of Kafka" for key in suspects if not taken.get(key, True)}
    for key, nearest in known.unknown([key for key in suspects if key not in taken]):
        unknown[key] = f"unknown key{f'; did you mean {nearest}?' if nearest else ''}"
    for key, message in unknown.items():
        if strict:
            reader.problem(key, message)
        else:
            reader.warn(f"{key}: {message}")


def _topic_keys(result: Mapping[str, SystemSettings]) -> dict[str, bool]:
    """The keys for topics, each with whether a topic takes it. Databases and plug-ins have keys of their own there."""
    with_topics = {SYSTEMS.short[name] for name in ("kafka", "local", "memory")}
    return {
        key: taken
        for settings in result.values()
        if settings.factory in with_topics
        for key, taken in systems.topic_keys(settings).items()
    }


def _names(config: JobConfig) -> dict[str, frozenset[str]]:
    return {
        "system": frozenset(config.systems),
        "stream": frozenset(config.stream_ids),
        "physical": frozenset(stream.stream for stream in config.streams),
        "store": frozenset(config.stores),
        "serde": frozenset(config.serdes),
        "reporter": frozenset(split_list(config.resolved.get("metrics.reporters", ""))),
    }


def _open_prefixes(
    found_systems: Mapping[str, SystemSettings], found_stores: Mapping[str, StoreConfig]
) -> Iterator[str]:
    """The prefixes of the keys that plug-ins of the user define."""
    ours = {*SYSTEMS.short.values(), *ENGINES.short.values()}
    for settings in found_systems.values():
        if settings.factory not in ours:
            yield f"systems.{settings.name}."
    for store in found_stores.values():
        if store.factory not in ours:
            yield f"stores.{store.name}."


class Setting(NamedTuple):
    """One key in force. `given`: the file sets it; else the value is the default."""

    key: str
    value: str
    given: bool


def effective(config: JobConfig, keys: tuple[Key[Any], ...]) -> list[Setting]:
    """Every key of `keys` that applies to the job, then the other keys of the file. Secrets are hidden."""
    shown = Masked(config.resolved, getattr(config.resolved, "secret", frozenset())).shown()
    result: dict[str, Setting] = {}
    for key in keys:
        if key.name.endswith(".*"):
            continue
        for names in _fillings(config, key):
            name = key.at(**names)
            place = next((p for p in key.places(**names) if p in shown), None)
            value = key.default_text if place is None else shown[place]
            result[place or name] = Setting(place or name, value, place is not None)
    rest = [Setting(key, value, True) for key, value in shown.items() if key not in result]
    return [*result.values(), *rest]


def _fillings(config: JobConfig, key: Key[Any]) -> Iterator[Mapping[str, str]]:
    known: dict[str, list[str]] = {
        "system": sorted(config.systems),
        "stream": sorted(config.stream_ids),
        "store": sorted(name for name, s in config.stores.items() if not is_of_another_engine(key, s.factory)),
        "serde": [],
        "reporter": [reporter.name for reporter in config.metrics_reporters],
    }
    placeholders = [name for _, name, _, _ in Formatter().parse(key.name) if name]
    for values in product(*(known[name] for name in placeholders)):
        yield dict(zip(placeholders, values, strict=True))
