"""`stores.NAME.backup.*`: snapshots of a store's files in another place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.config.reading.keys import TEXT, Key, collect, integer
from samzapy.config.reading.reader import Reader
from samzapy.config.reading.secrets import Masked


@dataclass(frozen=True)
class BackupConfig:
    """`path`: a folder as a URL for fsspec (`file:///...`, `s3://...`, `hdfs://...`). A snapshot is due after
    `every_commits` commits that changed the store, or `interval_ms` after the last one; 0 for never. `options` go to
    fsspec. `kept`: number of snapshots to keep."""

    path: str
    every_commits: int = 0
    interval_ms: int = 600_000
    kept: int = 2
    options: Mapping[str, str] = field(default_factory=dict)


PATH = Key(
    "stores.{store}.backup.path",
    TEXT,
    None,
    "Folder for snapshots of the store's files, as a URL for fsspec (file:///..., s3://..., hdfs://...). A task "
    "without local files starts from the newest snapshot and reads the rest from the changelog. Needs "
    "`samzapy[backup]`.",
    "no snapshots",
    ("stores.default.backup.path",),
)
EVERY_COMMITS = Key(
    "stores.{store}.backup.commits",
    integer(0),
    0,
    "Takes a snapshot after so many commits that change the store. 0: only after backup.interval.ms.",
    otherwise=("stores.default.backup.commits",),
)
INTERVAL_MS = Key(
    "stores.{store}.backup.interval.ms",
    integer(0),
    600_000,
    "Takes a snapshot after so many milliseconds, if the store has changed. 0: only after backup.commits.",
    otherwise=("stores.default.backup.interval.ms",),
)
KEPT = Key(
    "stores.{store}.backup.kept",
    integer(1, 1_000),
    2,
    "Number of snapshots to keep per task and store.",
    otherwise=("stores.default.backup.kept",),
)
OPTIONS = Key(
    "stores.{store}.backup.options.*",
    TEXT,
    None,
    "Options for fsspec's file system (`key`, `secret`, `host`, ...).",
)
KEYS = collect(globals())


def parse_backup(reader: Reader, store: str, *, logged: bool) -> BackupConfig | None:
    """Read the folder and the interval of snapshots, None for none."""
    path = reader.get(PATH, store=store)
    if path is None:
        return None
    if not logged:
        if reader.where(PATH, store=store) == PATH.at(store=store):
            reader.problem(
                PATH.at(store=store), f"needs stores.{store}.changelog, which has the changes since the snapshot"
            )
        return None
    found = BackupConfig(
        path,
        reader.get(EVERY_COMMITS, store=store),
        reader.get(INTERVAL_MS, store=store),
        reader.get(KEPT, store=store),
        _options(reader, store),
    )
    if not found.every_commits and not found.interval_ms:
        reader.problem(INTERVAL_MS.at(store=store), "no snapshot would ever be taken: set this key or backup.commits")
    return found


def _options(reader: Reader, store: str) -> Masked:
    return reader.below(f"stores.{store}.backup.options.")
