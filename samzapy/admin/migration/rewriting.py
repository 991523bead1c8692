"""Converts the entries of one partition of a store, and keeps the result until it is written to the changelog.

Nothing is written before every entry of the store has been converted, so an entry that does not fit stops a migration
while it can still be stopped. The result has one record for each key: a value, or a tombstone for an old key that no
new entry has. It lies in memory or in a file, sorted, as the entries did.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from struct import Struct

from samzapy.admin.migration.plan import Conversion, MigrationPlan
from samzapy.admin.migration.report import Counts, Misfit
from samzapy.api.engine import EngineSettings, StorageEngine
from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemConsumer
from samzapy.clock import Clock
from samzapy.errors import EnvironmentFailure, SamzapyError
from samzapy.storage.changelog.reading import scan
from samzapy.storage.inspection import Contents
from samzapy.storage.kv.codec import EntryCodec
from samzapy.storage.kv.large_messages import ENVELOPE_BYTES
from samzapy.storage.kv.memory import InMemoryStorageEngineFactory
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

#: The number of entries that do not fit and that are kept to be shown; all are counted.
MOST_SHOWN = 10
#: Results that are written to the file together.
_CHUNK = 5_000
#: The most entries that stay in memory.
_FEW_ENTRIES = 1_000
#: A result begins with this byte: a tombstone is nothing else, a value goes on with its time, -1 for none.
_GONE, _THERE = b"\x00", b"\x01"
_HEAD = Struct(">cq")


class _DoesNotFit(Exception):
    """Raised with the reason."""


class EntryRewriter:
    """Makes the new bytes of old entries. A part that the plan leaves alone keeps its bytes, but is read as well."""

    def __init__(self, plan: MigrationPlan, conversion: Conversion, max_record_bytes: int | None) -> None:
        """`max_record_bytes`: the largest record that the changelog takes, None for no limit."""
        self.keys_stay, self._values_stay = plan.keys_stay, plan.values_stay
        self._old_key, self._old_value = conversion.source
        self._new = EntryCodec(plan.store, *conversion.target)
        self._rewritten = 0
        self._change = conversion.change
        self._name = plan.convert
        # A record that is refused after others were written would leave the migration unfinished.
        self._limit = None if max_record_bytes is None else max(0, max_record_bytes - ENVELOPE_BYTES)

    def __call__(self, key_bytes: bytes, value_bytes: bytes) -> tuple[bytes, bytes] | None:
        """The new entry, None to delete it. Raises _DoesNotFit with the key and the reason, EnvironmentFailure."""
        self._rewritten += 1
        self._new.sample(self._rewritten)
        key = self._read(self._old_key, key_bytes, f"key {_shown(key_bytes)}")
        value = self._read(self._old_value, value_bytes, f"value of key {_shown(key)}")
        made = self._changed(key, value)
        if made is None:
            return None
        new_key, new_value = made
        try:
            new_key_bytes = key_bytes if self.keys_stay else self._new.encode_key(new_key)
            new_value_bytes = value_bytes if self._values_stay else self._new.encode_value(new_key, new_value)
        except EnvironmentFailure:
            raise
        except SamzapyError as cause:
            raise _DoesNotFit(str(cause).removeprefix(f"store '{self._new.store}': ")) from cause
        size = len(new_key_bytes) + len(new_value_bytes)
        if self._limit is not None and size > self._limit:
            left = f"{self._limit:,} B, the max.message.bytes of the changelog less {ENVELOPE_BYTES} B for its envelope"
            raise _DoesNotFit(f"key {_shown(new_key)}: record of {size:,} B > {left}")
        return new_key_bytes, new_value_bytes

    @staticmethod
    def _read(serde: Serde, data: bytes, part: str) -> object:
        try:
            return serde.from_bytes(data)
        except EnvironmentFailure:
            raise
        except Exception as cause:
            raise _DoesNotFit(f"{part}: {serde.misfit(cause)}") from cause

    def _changed(self, key: object, value: object) -> tuple[object, object] | None:
        try:
            made = self._change(key, value)
        except Exception as cause:
            who = self._name or "its new class"
            text = " ".join(str(cause).split())
            raise _DoesNotFit(f"key {_shown(key)}: {who} refuses it ({type(cause).__name__}: {text})") from cause
        if made is None:
            return None
        if not isinstance(made, tuple) or len(made) != 2:
            raise _DoesNotFit(
                f"key {_shown(key)}: {self._name} gave {_shown(made)}, expected (key, value), or None to delete the entry"
            )
        return made


def _shown(value: object) -> str:
    return reprlib.repr(value)


class RewrittenPartition:
    """The result of one partition: the records for its changelog."""

    def __init__(self, store: str, number: int, entries: int, folder: Path, partitions: int = 1) -> None:
        """`entries`: the largest possible number; many go to files below `folder`. `partitions` share the memory."""
        self.number = number
        self.counts = Counts()
        few = entries <= _FEW_ENTRIES
        factory = InMemoryStorageEngineFactory() if few else RocksDbStorageEngineFactory()
        directory = None if few else folder / f"rewritten-{number}"
        self._engine: StorageEngine = factory.open(directory, EngineSettings(store, {}, partitions))
        self._waiting: dict[bytes, bytes] = {}

    def put(self, key: bytes, value: bytes, time_ms: int | None) -> None:
        """A record with a value."""
        self._add(key, _HEAD.pack(_THERE, -1 if time_ms is None else time_ms) + value)

    def has_value(self, key: bytes) -> bool:
        """Whether `put` has had the key."""
        held = self._held(key)
        return held is not None and held != _GONE

    def bury(self, key: bytes) -> None:
        """A tombstone, unless the key has or gets a value."""
        if self._held(key) is None:
            self._add(key, _GONE)

    def values(self) -> Iterator[tuple[bytes, bytes, int | None]]:
        """Key, value and time of the records with values, sorted."""
        for key, data in self._records():
            if data != _GONE:
                time_ms = _HEAD.unpack_from(data)[1]
                yield key, data[_HEAD.size :], None if time_ms < 0 else time_ms

    def tombstones(self) -> Iterator[bytes]:
        """The keys that are deleted, sorted."""
        return (key for key, data in self._records() if data == _GONE)

    def close(self) -> None:
        """Release it."""
        self._engine.close()

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        self._write()
        with self._engine.iterate(None, None) as pairs:
            yield from pairs

    def _held(self, key: bytes) -> bytes | None:
        return self._waiting.get(key) or self._engine.get(key)

    def _add(self, key: bytes, data: bytes) -> None:
        self._waiting[key] = data
        if len(self._waiting) >= _CHUNK:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._engine.write(self._waiting, b"rewritten")
            self._waiting = {}


def rewrite_partition(
    contents: Contents,
    ssp: SystemStreamPartition,
    rewriter: EntryRewriter,
    result: RewrittenPartition,
    tell: Callable[[int], object],
    *,
    apart: bool,
) -> list[Misfit]:
    """Convert the entries of a partition into `result`; returns the first that do not fit. `tell` gets the number of
    converted entries from time to time.

    With `apart` no entry may take the old key of another one: without a transaction, a crash in between would lose the
    other. Two entries never become one.
    """
    counts = result.counts
    misfits: list[Misfit] = []
    for key, value, time_ms in contents.timed(ssp.partition):
        counts.entries += 1
        if counts.entries % _CHUNK == 0:
            tell(counts.entries)
        try:
            made = rewriter(key, value)
            if made is None:
                result.bury(key)
                counts.deleted += 1
                continue
            new_key, new_value = made
            if not rewriter.keys_stay:
                _check_new_key(contents, ssp.partition, result, key, new_key, apart=apart)
                if new_key != key:
                    result.bury(key)
            result.put(new_key, new_value, time_ms)
            counts.rewritten += 1
        except _DoesNotFit as cause:
            counts.misfits += 1
            if len(misfits) < MOST_SHOWN:
                misfits.append(Misfit(ssp, key, value, str(cause)))
    return misfits


def _check_new_key(
    contents: Contents, partition: int, result: RewrittenPartition, key: bytes, new_key: bytes, *, apart: bool
) -> None:
    if result.has_value(new_key):
        raise _DoesNotFit(f"key {_shown(key)} becomes {_shown(new_key)}, which another entry has become already")
    if apart and new_key != key and contents.holds(partition, new_key):
        raise _DoesNotFit(
            f"key {_shown(key)} becomes {_shown(new_key)}, the key of another entry now; without transactions a crash "
            "could lose that one"
        )


def located(
    misfits: Sequence[Misfit], log: OffsetRange, consumer_of: Callable[[str], SystemConsumer], clock: Clock
) -> list[Misfit]:
    """The misfits of one partition with the offsets of their records: the last ones with the same bytes."""
    if not misfits:
        return []
    wanted = {(each.key, each.value) for each in misfits}
    offsets: dict[tuple[bytes, bytes], int] = {}
    ssp = misfits[0].ssp
    with closing(consumer_of(ssp.system)) as consumer:
        for batch in scan(consumer, ssp, log, clock):
            for offset, key, value in zip(batch.offsets, batch.keys, batch.values, strict=True):
                if key is not None and value is not None and (key, value) in wanted:
                    offsets[key, value] = offset
    return [replace(each, offset=offsets.get((each.key, each.value))) for each in misfits]
