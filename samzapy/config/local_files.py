"""How a store's files on this machine keep up with its commits, and how they are made anew."""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.config.keys import Key, collect
from samzapy.config.kinds import integer
from samzapy.config.reader import Reader


@dataclass(frozen=True)
class LocalFiles:
    """`flush_records`, `flush_interval_ms`: so many changes, and changes so old, may be only in the engine's memory after a
    commit. `restore_max_bytes`: memory in which a container gathers what it restores."""

    flush_records: int = 400_000
    flush_interval_ms: int = 60_000
    restore_max_bytes: int = 402_653_184


FLUSH_RECORDS = Key(
    "stores.{store}.flush.records",
    integer(1, 2**31 - 1),
    400_000,
    "Changes of one task that may be in its memory only: after a kill so many changelog records, and those of one commit, "
    "are read at the most. At half of them commits begin to bring them to its files, in the background; at all of them, "
    "if the disk has not kept up, they wait.",
)
FLUSH_INTERVAL_MS = Key(
    "stores.{store}.flush.interval.ms",
    integer(0, 2**53),
    60_000,
    "Milliseconds that changes may be in a task's memory only, when a commit is due: at half of them it begins to bring them "
    "to the task's files, at all of them it waits for that. 0: every commit waits.",
)
RESTORE_MAX_BYTES = Key(
    "stores.{store}.restore.max.bytes",
    integer(65_536, 2**53),
    402_653_184,
    "Bytes of memory in which a container gathers changelog records before it writes each key's last one; the stores that "
    "it restores at a time share them.",
)
KEYS = collect(globals())


def parse_local_files(reader: Reader, store: str) -> LocalFiles:
    """What the job file says about a store's files."""
    return LocalFiles(
        reader.get(FLUSH_RECORDS, store=store),
        reader.get(FLUSH_INTERVAL_MS, store=store),
        reader.get(RESTORE_MAX_BYTES, store=store),
    )
