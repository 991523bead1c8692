"""Finds the archive of classes, or the place for one. With an archive Spark's JVMs start in about half the CPU time.

A JVM with such an archive maps its classes into memory. Without one it reads, parses and verifies thousands of classes from
Spark's jars. Java calls this dynamic class-data sharing.

1. An archive fits one build of Java and one list of jars. The JVM checks both, by the sizes and times of the files, and the
   archive by its check sums, and starts without an archive if it does not fit, is damaged or is missing. The name of
   the folder is a digest of the same facts, so every Java and every Spark has its own.
2. Java refuses a class path with a folder of files in it. So there is no archive for a Spark with a configuration
   folder, or where the user's own options concern archives or agents.
3. A JVM trusts the code that it maps. So the folders belong to this user alone, and a file gets its name only after it was
   written, tried and flushed to the disk.
4. Only the newest few folders stay.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from samzapy.java.finder import Java

#: Changes whenever the recording does.
_FORMAT = "1"
#: The number of archives to keep, of some 60 MB each.
KEPT = 4
#: Failed recordings after which no further one is tried.
_MOST_FAILURES = 3
#: A path that needs no quotes in Spark's options, and has no colon, which separates two archives.
_PLAIN = re.compile(r"[\w./+@-]+", re.ASCII)
#: Options with which a user decides about archives, or has classes changed as they are loaded.
_OWN = re.compile(
    r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive|-XX:AOT|-javaagent|-agentlib|-agentpath"
)
#: Variables from which every JVM takes options.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def cache_folder() -> Path:
    """The folder of downloads and archives: SAMZAPY_CACHE, else XDG_CACHE_HOME/samzapy, else ~/.cache/samzapy."""
    own, xdg = os.environ.get("SAMZAPY_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(xdg or Path.home() / ".cache") / "samzapy"


@dataclass(frozen=True)
class ClassArchive:
    """The place of an archive, recorded or not. All files of it are in `folder`."""

    folder: Path

    @property
    def file(self) -> Path:
        """The archive itself."""
        return self.folder / "classes.jsa"

    @property
    def home(self) -> Path:
        """The SPARK_HOME of the recording. It stays, because JVMs look for the jars there, too."""
        return self.folder / "home"

    @property
    def is_recorded(self) -> bool:
        """Whether a JVM may use it. A file that was cut off would end the JVM."""
        try:
            whole = self.file.stat().st_size == int(self._size.read_text("ascii"))
        except (OSError, ValueError):
            return False
        return whole and _is_private(self.folder) and _is_private(self.folder.parent)

    @property
    def is_hopeless(self) -> bool:
        """Whether recordings have failed too often."""
        with suppress(OSError):
            return len(self._failures.read_text("utf-8").splitlines()) >= _MOST_FAILURES
        return False

    def used(self) -> None:
        """Note a use, so that others are removed first."""
        with suppress(OSError):
            os.utime(self.folder)

    def failed(self, reason: str) -> None:
        """Note a failed recording. Raises OSError."""
        with self._failures.open("a", encoding="utf-8") as lines:
            lines.write(" ".join(reason.split()) + "\n")

    @property
    def _size(self) -> Path:
        return self.folder / "size"

    @property
    def _failures(self) -> Path:
        return self.folder / "failures.log"

    @contextmanager
    def recording(self) -> Iterator[bool]:
        """Make the folder and hold its lock. Yields False if another process records. Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.parent.chmod(0o700)
        with (self.folder / "lock").open("w") as lock:
            yield _locked(lock.fileno())

    def keep(self, recorded: Path) -> None:
        """Make the file of a recording, in the same folder, the archive, and remove the oldest other archives. Raises
        OSError."""
        with recorded.open("rb") as file, self._size.open("w", encoding="ascii") as size:
            size.write(f"{recorded.stat().st_size}\n")
            size.flush()
            for each in (file, size):
                os.fsync(each.fileno())
        recorded.replace(self.file)
        others = sorted((each.stat().st_mtime, each) for each in self.folder.parent.iterdir() if each != self.folder)
        for _, old in others[: max(0, len(others) + 1 - KEPT)]:
            with suppress(OSError), (old / "lock").open("w") as lock:
                if _locked(lock.fileno()):
                    shutil.rmtree(old, ignore_errors=True)


def class_archive(java: Java, home: Path) -> ClassArchive | None:
    """The archive for that Java and the Spark in the folder `home`; None if they can have none."""
    runtime = java.command.resolve().parents[1] / "lib" / "server"
    conf = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    own = any(chooses_archive(os.environ.get(name, "")) for name in _VARIABLES)
    # An archive extends the one that comes with Java; a reduced runtime may have none.
    if own or conf.exists() or not (runtime / "classes.jsa").is_file():
        return None
    try:
        made = ClassArchive(cache_folder() / "class-archives" / _digest(runtime, home / "jars"))
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return made if _PLAIN.fullmatch(str(made.folder)) and made.folder.is_absolute() else None


def chooses_archive(options: str) -> bool:
    """Whether these options of a JVM name an archive or an agent, so that ours has no place there."""
    return _OWN.search(options) is not None


def _digest(runtime: Path, jars: Path) -> str:
    found = hashlib.sha256(f"{_FORMAT} {runtime} {jars.resolve()}".encode())
    for folder, pattern in ((runtime, "libjvm.*"), (runtime, "classes.jsa"), (jars, "*.jar")):
        for path in sorted(folder.glob(pattern)):
            stat = path.stat()
            # An image keeps whole seconds only, and so does the JVM.
            found.update(f"\n{path.name} {stat.st_size} {int(stat.st_mtime)}".encode())
    return found.hexdigest()[:16]


def _is_private(folder: Path) -> bool:
    try:
        stat = folder.lstat()
    except OSError:
        return False
    return stat.st_uid == os.geteuid() and not stat.st_mode & 0o022


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
