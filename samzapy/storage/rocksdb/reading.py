"""The files of a store as of one moment, for a reader whose owner goes on writing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from samzapy.errors import StoreError

#: What a reader does without: the owner's lock and log, and what rocksdict would write to.
_NOT_READ: Final = ("LOCK", "LOG", "rocksdict-config.json")
#: Where Linux shows the files that this process has open, also when they were deleted since.
_OPEN_FILES: Final = Path("/proc/self/fd")


def written_folder() -> Path | None:
    """Where `links_to` makes its folders; None before the first one."""
    return None if tempfile.tempdir is None else Path(os.fsdecode(tempfile.tempdir))


@contextmanager
def links_to(path: Path) -> Iterator[Path]:
    """A folder of our own with the list of a store's tables and links to its files, while the store is being opened.

    rocksdict writes its own file at each opening, also for reading: in the store's directory that would need the right to
    write, and a full disk would leave the owner's file empty. RocksDB's errors name the store's directory.

    The list of tables is as long as it was at first: each table that it names is among the files that are linked after it,
    whatever the owner flushes meanwhile. On Linux the tables are held open, so a compaction cannot take them away either. A
    table or a write-ahead log that went before it was held has a link that leads nowhere: the opening fails, and can be tried
    again. A log must not be missing without an error, since the later ones would be read all the same.
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
        # It names its file: one of the store, or one of the folder where there was no room for it.
        raise
    except Exception as cause:
        raise StoreError(str(cause).replace(str(folder), str(path))) from cause
    finally:
        shutil.rmtree(folder)
