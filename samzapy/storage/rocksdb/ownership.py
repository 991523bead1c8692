"""Claims the directory of a store, and finds the process that has it open.

Only one process may have a directory open, once, and not its forked children.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import weakref
from pathlib import Path
from typing import Any, Protocol

from samzapy.errors import StoreLocked
from samzapy.storage.local.directory import locking_pid

#: Our own file beside RocksDB's LOCK: the process that has the directory open.
HOLDER_FILE = "samzapy.pid"

#: Real paths open for writing in this process (or in the one it was forked from), with the pid that opened them.
#: RocksDB's own table compares the text of paths, so a symlink would get past it.
CLAIMED: dict[Path, int] = {}


class Disownable(Protocol):
    """An object with a handle that a forked child must neither use nor close."""

    def disown(self) -> Any:
        """Give up the handle and return it."""
        ...


_HELD: weakref.WeakSet[Any] = weakref.WeakSet()


class Ownership:
    """A directory claimed for one engine."""

    __slots__ = ("_path", "_pid")

    def __init__(self, path: Path) -> None:
        """Claim `path`, a real path. Raises StoreLocked if this process has it open already."""
        if path in CLAIMED:
            raise StoreLocked(f"{path}: the store is open already in pid {CLAIMED[path]}")
        self._path = path
        self._pid = os.getpid()
        CLAIMED[path] = self._pid

    def note_holder(self) -> None:
        """Write our pid beside RocksDB's lock, once the lock is ours, for other processes that find it locked."""
        (self._path / HOLDER_FILE).write_text(f"{self._pid}\n", encoding="ascii")

    def watch(self, engine: Disownable) -> None:
        """Disown `engine` in every child of this process."""
        _HELD.add(engine)

    def release_claim(self) -> None:
        """Let this process open the directory again; another holder's pid file is left alone."""
        CLAIMED.pop(self._path, None)

    def release(self) -> None:
        """Let the directory be opened again, by anyone."""
        self.release_claim()
        with contextlib.suppress(OSError):
            (self._path / HOLDER_FILE).unlink()


def holder(path: Path) -> str:
    """The process that has the store at `path` open, in words."""
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
