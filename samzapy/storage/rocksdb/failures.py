"""Translates RocksDB's errors, and remembers damage for the next start."""

from __future__ import annotations

import os
from pathlib import Path

from samzapy.errors import StoreClosed, StoreCorrupted, StoreDiskFailed, StoreError, StoreLocked
from samzapy.storage.rocksdb.ownership import CLAIMED, holder

#: Written when damage was found, so that the next start does not trust the directory although it opens.
DAMAGE_FILE = "samzapy.damage"


#: rocksdict's text for a call of another thread: readers meet it only while the store is being closed.
IN_USE = "borrowed"

#: RocksDB's texts for a lock that this or another process holds. Other errors of the file LOCK mean something else. If
#: the file is missing, the holder of the lock has just renamed the directory.
_LOCKED = ("/LOCK: Resource temporarily unavailable", "/LOCK: No such file", "lock hold by current process")

OPENING = "opening"
#: While a store is opened, a missing file, or a folder in the place of one, can only mean that the store is damaged.
_DAMAGED_FILES = ("No such file", "Is a directory", "Not a directory")


def translated(cause: Exception, path: Path, doing: str, written: Path | None = None) -> StoreError:
    """Translate `cause`, which rocksdict raised while `doing` something to the store at `path`, into a StoreError.

    `written`: the folder to which a reader writes instead of the store's. The owner of the store's directory also notes
    damage in it. A reader does not: a compaction may have deleted a file under it.
    """
    text = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    if IN_USE in text:
        return StoreClosed(f"{path}: {doing}: another thread closes the store")
    if any(locked in text for locked in _LOCKED):
        return StoreLocked(f"{path}: {holder(path)}")
    damaged = doing == OPENING and any(lost in text for lost in _DAMAGED_FILES)
    if damaged or "Corruption:" in text or text.startswith("Corruption"):
        _note_damage(path, text)
        return StoreCorrupted(f"{path}: {doing}: {text}")
    failure = StoreDiskFailed if text.startswith("IO error") else StoreError
    return failure(f"{path}: {doing}: {text}{_explanation(text, path, written)}")


def _explanation(text: str, path: Path, written: Path | None) -> str:
    lowered = text.lower()
    if "no space left" in lowered or "quota" in lowered:
        return f" (disk full: {_free(path, written)})"
    if "file too large" in lowered:
        return f" (file too large for this process or file system; {_free(path, written)})"
    if "permission denied" in lowered or "read-only" in lowered:
        return " (no right to write there)"
    return ""


def _free(path: Path, written: Path | None) -> str:
    return f"{_free_bytes(path):,} B free" if written is None else f"{_free_bytes(written):,} B free in {written}"


def _free_bytes(path: Path) -> int:
    try:
        stat = os.statvfs(path)
    except OSError:
        return 0
    return stat.f_bavail * stat.f_frsize


def _note_damage(path: Path, text: str) -> None:
    if CLAIMED.get(path) != os.getpid():
        return
    try:
        (path / DAMAGE_FILE).write_text(text, encoding="utf-8")
    except OSError:
        return


def noted_damage(path: Path) -> str | None:
    """The note that was left when damage was found here, None if there is none."""
    try:
        return (path / DAMAGE_FILE).read_text(encoding="utf-8")
    except OSError:
        return None
