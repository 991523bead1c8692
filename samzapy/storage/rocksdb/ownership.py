"""Claims the directory of a store, finds the process that has it open, and translates RocksDB's errors.

Only one process may have a directory open, once, and not its forked children. Damage is noted for the next start.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from pathlib import Path
from typing import Any

from samzapy.errors import StoreClosed, StoreCorrupted, StoreDiskFailed, StoreError, StoreLocked
from samzapy.storage.local.directory import locking_pid

#: Real paths open for writing in this process (or in the one it was forked from), with the pid that opened them.
#: RocksDB's own table compares the text of paths, so a symlink would get past it.
CLAIMED: dict[Path, int] = {}


#: The engines that own a directory.
_HELD: weakref.WeakSet[Any] = weakref.WeakSet()


class Ownership:
    """A directory claimed for one engine."""

    def __init__(self, path: Path) -> None:
        """Claim `path`, a real path. Raises StoreLocked if this process has it open already."""
        if path in CLAIMED:
            raise StoreLocked(f"{path}: the store is open already in pid {CLAIMED[path]}")
        self._path = path
        CLAIMED[path] = os.getpid()

    def watch(self, engine: Any) -> None:
        """Call `engine.disown()`, which gives up its handle, in every child of this process."""
        _HELD.add(engine)

    def release(self) -> None:
        """Let this process open the directory again."""
        CLAIMED.pop(self._path, None)


def holder(path: Path) -> str:
    """The process that has the store at `path` open, in words."""
    pid = locking_pid(path)
    if pid is None:
        return "the store is locked by another process"
    if pid == os.getpid():
        return f"the store is open already in this process (pid {pid})"
    return f"the store is locked by pid {pid} ({_command(pid)})"


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "unknown command"
    return b" ".join(words).decode(errors="replace").strip()[:100] or "unknown command"


def _disown_all() -> None:
    """Disown every engine in a forked child: RocksDB's threads do not exist there, and a close would write to the
    parent's files.

    The handles are leaked on purpose, until after the interpreter's end.
    """
    for engine in list(_HELD):
        handle = engine.disown()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
    _HELD.clear()


os.register_at_fork(after_in_child=_disown_all)


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
