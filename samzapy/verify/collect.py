"""Gathers the evidence of a job that has stopped."""

from __future__ import annotations

from pathlib import Path

from samzapy.api.engine import EngineSettings
from samzapy.checkpoint import checkpoint_topic
from samzapy.storage.local.directory import store_directory
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.verify.evidence import Evidence, Record
from samzapy.verify.job import PARTITIONS, changelog
from samzapy.verify.streams import Streams
from samzapy.verify.workload import STORES


def streams_of(name: str) -> list[str]:
    """Every stream that a verification of this name makes."""
    return [f"{name}-in", f"{name}-out", checkpoint_topic(name, "1"), *(changelog(name, store) for store in STORES)]


def collect(streams: Streams, name: str, watched: list[Record], state: Path | None) -> Evidence:
    """Read everything. `state`: where the last run's stores lie; None if they are out of reach. Raises NoProgress."""
    return Evidence(
        input_stream=f"{name}-in",
        partitions=PARTITIONS,
        inputs=streams.read(f"{name}-in"),
        outputs=streams.read(f"{name}-out"),
        watched=watched,
        changelogs={store: streams.read(changelog(name, store)) for store in STORES},
        dumps=None if state is None else {store: _dumps(state, name, store) for store in STORES},
        checkpoints=streams.read(checkpoint_topic(name, "1")),
        ends=streams.ends(f"{name}-in"),
    )


def _dumps(state: Path, name: str, store: str) -> list[dict[bytes, bytes]]:
    found = []
    for number in range(PARTITIONS):
        directory = store_directory(state, f"{name}-1", store, f"Partition {number}")
        engine = RocksDbStorageEngineFactory().open(directory, EngineSettings(store))
        try:
            with engine.iterate(None, None) as pairs:
                found.append(dict(pairs))
        finally:
            engine.close()
    return found
