"""Replaces older names of keys by today's: those of stores before Samza 0.8, and our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

_STORES = "stores."
_FIRST_ENGINES = frozenset({"KeyValueStorageEngineFactory", "LevelDbKeyValueStorageEngineFactory"})


def _as_it_is(value: str) -> str:
    return value


def _compression(value: str) -> str:
    return {"true": "snappy", "false": "none"}.get(value.strip().lower(), value)


#: Older name below `stores.NAME.` -> today's, and what becomes of the value.
_RENAMED: Mapping[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "batch.size": (("write.batch.size",), _as_it_is),
    "serde": (("key.serde", "msg.serde"), _as_it_is),
    "leveldb.block.cache.size": (("container.cache.size.bytes",), _as_it_is),
    "leveldb.write.buffer.size": (("container.write.buffer.size.bytes",), _as_it_is),
    "leveldb.block.size": (("rocksdb.block.size.bytes",), _as_it_is),
    "leveldb.compress": (("rocksdb.compression",), _compression),
}


#: Older names of ours -> today's, and what else has changed with the name.
_OURS = {
    "job.clock.idle.ms": ("task.watermark.idle.timeout.ms", ", which timers and watermarks go by as well"),
}


class Renamed(NamedTuple):
    """Values with older names replaced, a warning for each, and the keys whose values are secret."""

    values: dict[str, str]
    warnings: list[str]
    secret: frozenset[str]


def with_todays_names(values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> Renamed:
    """Replace older names; a secret value stays one.

    Where a file gives both names, today's counts. LevelDB's memory was each store's own, RocksDB's is divided among the
    tasks of a container, so the warning says what the number means now.
    """
    found = dict(values)
    warnings: list[str] = []
    hidden = set(secret)
    for key, (name, change) in _OURS.items():
        if key in found:
            value = found.pop(key)
            found.setdefault(name, value)
            hidden |= {name} if key in secret else set()
            warnings.append(f"{key}: is called {name} today{change}")
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
            warnings.append(f"{key}: is called {now} today{shared}")
        elif leaf == "system":
            del found[key]
            hidden |= {f"{store}.changelog"} if key in secret else set()
            warnings.append(f"{key}: {_into_changelog(found, store, values[key])}")
        elif leaf == "factory" and _is_first_engine(values[key]):
            found[key] = "rocksdb"
            warnings.append(f"{key}: LevelDB is not supported: the store is kept in rocksdb")
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
        return f"is said in {store}.changelog today, as SYSTEM.STREAM"
    return f"has no effect: {store}.changelog says where the changelog is"


def _is_first_engine(value: str) -> bool:
    java = value.strip().startswith(("samza.", "org.apache.samza."))
    return java and value.strip().rpartition(".")[2] in _FIRST_ENGINES
