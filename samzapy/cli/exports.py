"""Entries of a store as a file for other programs."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path

from samzapy.cli.contents import Answer
from samzapy.cli.literals import as_text
from samzapy.errors import EnvironmentFailure
from samzapy.storage.inspection import Entry


def export_entries(answer: Answer, entries: Iterable[Entry], file: Path, kind: str) -> int:
    """Write beside `file`, then rename over it, so that it is complete or absent. `kind`: json or csv. Returns how many.

    Raises EnvironmentFailure when the file cannot be written.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    written = 0
    try:
        try:
            with beside.open("w", encoding="utf-8", newline="") as out:
                if kind == "csv":
                    rows = csv.writer(out, lineterminator="\n")
                    rows.writerow(("partition", "key", "value"))
                    for written, entry in enumerate(entries, 1):  # noqa: B007
                        rows.writerow((entry.partition, *map(as_text, answer.objects(entry))))
                else:
                    for written, entry in enumerate(entries, 1):  # noqa: B007
                        out.write(answer.line(entry) + "\n")
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as cause:
        raise EnvironmentFailure(f"{file}: cannot be written ({cause.strerror or cause})") from cause
    return written
