"""Checks at the start whether the classes that a job file names for a store can read a sample of its entries.

The sample has the first entries of the store, and some after each byte in which its keys begin to differ, so old and
new entries and all kinds of keys. Without the check a class that cannot read them would fail in the middle of a run.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from itertools import islice

from samzapy.api.engine import CommittedEntries, StorageEngine
from samzapy.api.serde import Serde, hinted
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure
from samzapy.storage.kv.expiring import unstamped

#: Entries at the beginning, entries behind each place, and the distance of places in the values of a byte.
_FIRST, _EACH, _STEP = 64, 4, 4

Entry = tuple[bytes, bytes]


def check_sample(config: StoreConfig, engine: StorageEngine, key_serde: Serde, value_serde: Serde) -> None:
    """Raise ConfigError if a class of the store does not read an entry of the sample; nothing is read without
    classes."""
    if key_serde.object_type is None and value_serde.object_type is None:
        return
    snapshot = engine.snapshot()
    try:
        for key, value in sample(snapshot):
            data = value if config.ttl_ms is None else unstamped(value)
            _try("key", config.name, config.key_type, key_serde, key, key)
            _try("msg", config.name, config.msg_type, value_serde, data, _shown(key_serde, key))
    finally:
        snapshot.close()


def sample(snapshot: CommittedEntries) -> Iterator[Entry]:
    """Read a few hundred entries at most, from the whole range of the keys."""
    first = _entries(snapshot, None, _FIRST)
    yield from first
    if len(first) < _FIRST:
        return
    lowest = first[0][0]
    for length in range(len(lowest)):
        prefix, byte = lowest[:length], lowest[length] + 1
        while byte < 256:
            found = _entries(snapshot, prefix + bytes([byte]), _EACH)
            yield from found
            if not found or not found[0][0].startswith(prefix):
                break
            byte = max(found[0][0][length], byte) + _STEP
        if byte > lowest[length] + 1:
            return


def _entries(snapshot: CommittedEntries, lower: bytes | None, most: int) -> list[Entry]:
    with snapshot.iterate(lower, None) as pairs:
        return list(islice(pairs, most))


def _try(part: str, store: str, path: str | None, serde: Serde, data: bytes, key: object) -> None:
    if serde.object_type is None:
        return
    try:
        serde.from_bytes(data)
    except EnvironmentFailure:
        raise
    except Exception as cause:
        message = (
            f"does not read what the store holds: key {reprlib.repr(key)}: {hinted(serde).misfit(cause)}; give new "
            "fields defaults and old ones their types, or copy the store to another changelog (samzapy store copy)"
        )
        raise ConfigError([ConfigProblem(f"stores.{store}.{part}.type", path, message)]) from cause


def _shown(serde: Serde, key: bytes) -> object:
    try:
        return serde.from_bytes(key)
    except Exception:  # noqa: BLE001  # a serde may refuse in any way; the bytes are shown then
        return key
