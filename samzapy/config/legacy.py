"""Retired keys: replaces the names that keys of stores had before Samza 0.8, and retired names of ours.

    job.clock.idle.ms           task.watermark.idle.timeout.ms, which timers and watermarks obey as well

Below `stores.NAME.`:

    batch.size                  write.batch.size
    serde                       key.serde and msg.serde
    system                      part of changelog: SYSTEM.STREAM
    leveldb.block.cache.size    container.cache.size.bytes, for all tasks of a container together
    leveldb.write.buffer.size   container.write.buffer.size.bytes, likewise
    leveldb.block.size          rocksdb.block.size.bytes
    leveldb.compress            rocksdb.compression, true as snappy
    factory                     LevelDB's and the first key-value engine as rocksdb

1. Each replacement brings a warning that names the key of today.
2. If a file has both names, the one of today counts.
3. A secret value stays secret under its new name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

_STORES = "stores."
_FIRST_ENGINES = frozenset({"KeyValueStorageEngineFactory", "LevelDbKeyValueStorageEngineFactory"})


def _as_it_is(value: str) -> str:
    return value


def _compression(value: str) -> str:
    return {"true": "snappy", "false": "none"}.get(value.strip().lower(), value)


#: Retired name below `stores.NAME.` -> the names of today, and how the value is translated.
_RENAMED: Mapping[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "batch.size": (("write.batch.size",), _as_it_is),
    "serde": (("key.serde", "msg.serde"), _as_it_is),
    "leveldb.block.cache.size": (("container.cache.size.bytes",), _as_it_is),
    "leveldb.write.buffer.size": (("container.write.buffer.size.bytes",), _as_it_is),
    "leveldb.block.size": (("rocksdb.block.size.bytes",), _as_it_is),
    "leveldb.compress": (("rocksdb.compression",), _compression),
}


#: Retired names of ours -> the names of today, and the change of meaning.
_OURS = {
    "job.clock.idle.ms": ("task.watermark.idle.timeout.ms", ", which timers and watermarks obey as well"),
}


class Renamed(NamedTuple):
    """The values under the names of today, a warning for each that was replaced, and the keys with secret values."""

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
    return f"has no effect: {store}.changelog names the system already"


def _is_first_engine(value: str) -> bool:
    java = value.strip().startswith(("samza.", "org.apache.samza."))
    return java and value.strip().rpartition(".")[2] in _FIRST_ENGINES
