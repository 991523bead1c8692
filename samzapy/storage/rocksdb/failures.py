"""RocksDB's texts as our errors."""

from __future__ import annotations

import os
from pathlib import Path

from samzapy.errors import StoreClosed, StoreCorrupted, StoreError, StoreLocked
from samzapy.storage.local.directory import locking_pid

#: Our own file beside RocksDB's LOCK: the process that has the directory open.
HOLDER_FILE = "samzapy.pid"

#: Left behind when damage was found, so that the next start does not trust the directory though it would open.
DAMAGE_FILE = "samzapy.damage"


#: How rocksdict says that another thread is in a call: readers meet it only while the store is being closed.
IN_USE = "borrowed"

#: What is being done when a file that is not there can only mean that the store has lost it.
OPENING = "opening"


#: Real paths open for writing in this process (or in the one it was forked from), and by which pid. RocksDB's own table goes
#: by path text, so a symlink would get past it.
CLAIMED: dict[Path, int] = {}


def translated(cause: Exception, path: Path, doing: str) -> StoreError:
    """`cause`, raised by rocksdict while `doing` something to the store at `path`, as one of our errors.

    Damage is also noted in the directory, by its owner: a mere reader may have been overtaken by a compaction.
    """
    text = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    if IN_USE in text:
        return StoreClosed(f"{path}: {doing}: another thread closes the store")
    if "/LOCK:" in text:
        return StoreLocked(f"{path}: {holder(path)}")
    if text.startswith("Corruption") or "Corruption:" in text or (doing == OPENING and "No such file" in text):
        _note_damage(path, text)
        return StoreCorrupted(f"{path}: {doing}: {text}")
    return StoreError(f"{path}: {doing}: {text}{_explanation(text, path)}")


def _explanation(text: str, path: Path) -> str:
    lowered = text.lower()
    if "no space left" in lowered or "quota" in lowered:
        return f" (disk full: {_free_bytes(path):,} B free)"
    if "file too large" in lowered:
        return f" (file too large for this process or file system; {_free_bytes(path):,} B free)"
    if "permission denied" in lowered or "read-only" in lowered:
        return " (no right to write there)"
    return ""


def _free_bytes(path: Path) -> int:
    try:
        stat = os.statvfs(path)
    except OSError:
        return 0
    return stat.f_bavail * stat.f_frsize


def holder(path: Path) -> str:
    """Who has the store at `path` open, in words."""
    pid = locking_pid(path) or _written_pid(path)
    if pid is None:
        return "the store is locked by another process"
    if pid == os.getpid():
        return f"the store is open already in this process (pid {pid})"
    return f"the store is locked by pid {pid} ({_command(pid)})"


def _written_pid(path: Path) -> int | None:
    try:
        pid = int((path / HOLDER_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return pid if Path(f"/proc/{pid}").exists() else None


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "unknown command"
    return b" ".join(words).decode(errors="replace").strip()[:100] or "unknown command"


def _note_damage(path: Path, text: str) -> None:
    if CLAIMED.get(path) != os.getpid():
        return
    try:
        (path / DAMAGE_FILE).write_text(text, encoding="utf-8")
    except OSError:
        return


def noted_damage(path: Path) -> str | None:
    """What was noted when damage was found here, None if nothing was."""
    try:
        return (path / DAMAGE_FILE).read_text(encoding="utf-8")
    except OSError:
        return None
