"""Writes standard input to a file that rotates: `python -m samzapy.devkafka.rotating FILE BYTES FILES`.

A broker outlives the process that has started it, and its JVM has no logger with rotating files. So its output goes
through this process, which ends with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

#: Bytes that are read in one go, at the most.
_CHUNK = 65_536


def rotate(lines: int, path: Path, max_bytes: int, files: int) -> None:
    """Copy the descriptor `lines` to its end. A file of `max_bytes` is renamed to `.1` after its last whole line, and
    older files to `.2` and so on; `files` older ones are kept."""
    log: IO[bytes] = path.open("ab", buffering=0)
    try:
        while chunk := os.read(lines, _CHUNK):
            # Up to the end of the last line.
            whole = chunk.rfind(b"\n") + 1
            if whole and log.tell() + whole >= max_bytes:
                log.write(chunk[:whole])
                log = _next(log, path, files)
                chunk = chunk[whole:]
            log.write(chunk)
    finally:
        log.close()


def _next(full: IO[bytes], path: Path, files: int) -> IO[bytes]:
    full.close()
    for number in range(files, 0, -1):
        older = path if number == 1 else path.with_name(f"{path.name}.{number - 1}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number}"))
    return path.open("ab", buffering=0)


if __name__ == "__main__":
    rotate(sys.stdin.fileno(), Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
