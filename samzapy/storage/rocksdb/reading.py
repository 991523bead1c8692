"""Gives a reader the files of a store as of one moment, while the store's owner goes on writing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from samzapy.errors import StoreError

#: Files that a reader leaves out: the owner's lock and message log, and the file that rocksdict writes.
_NOT_READ: Final = ("LOCK", "LOG", "rocksdict-config.json")
#: Linux shows the open files of this process here, including deleted ones.
_OPEN_FILES: Final = Path("/proc/self/fd")


def written_folder() -> Path | None:
    """The folder in which `links_to` makes its folders; None before the first one."""
    return None if tempfile.tempdir is None else Path(os.fsdecode(tempfile.tempdir))


@contextmanager
def links_to(path: Path) -> Iterator[Path]:
    """Make a temporary folder with a copy of the store's manifest and links to its files, for the time of an opening.

    1. rocksdict writes its own file at each opening, also for reading. In the store's directory it would need the right
       to write, and a full disk would leave the owner's file empty.
    2. The copy ends where the manifest ended before the files were listed. So every table that it names has a link,
       whatever the owner flushes meanwhile. On Linux the tables are also held open against compactions.
    3. If a table or a write-ahead log disappears too early, the opening fails and can be tried again. A missing log
       must not pass without an error, since RocksDB would read the later logs all the same.
    4. RocksDB's errors name the store's directory instead of the folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="samzapy-read-"))
    try:
        with ExitStack() as held:
            logs = {file.name for file in path.glob("*.log")}
            name = (path / "CURRENT").read_text().strip()
            manifest = held.enter_context((path / name).open("rb"))
            length = os.fstat(manifest.fileno()).st_size
            with os.scandir(path) as found:
                names = {each.name for each in found if each.name not in _NOT_READ and each.is_file()}
            tables = {each for each in names if each.endswith(".sst")} if _OPEN_FILES.is_dir() else set()
            for table in tables:
                opened = held.enter_context((path / table).open("rb", buffering=0))
                (folder / table).symlink_to(_OPEN_FILES / str(opened.fileno()))
            for other in (names | logs) - tables - {name, "CURRENT"}:
                (folder / other).symlink_to(path / other)
            (folder / name).write_bytes(manifest.read(length))
            (folder / "CURRENT").write_text(f"{name}\n")
            yield folder
    except OSError:
        # The error names its file: one of the store, or one in the folder if there was no room for it.
        raise
    except Exception as cause:
        raise StoreError(str(cause).replace(str(folder), str(path))) from cause
    finally:
        shutil.rmtree(folder)
