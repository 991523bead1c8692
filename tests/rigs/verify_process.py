"""`samzapy verify` as users call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

SAMZAPY = Path(sys.executable).with_name("samzapy")


class Verified(NamedTuple):
    """How it ended: exit code, both outputs, and the rows of `--json`."""

    code: int
    output: str
    errors: str
    rows: list[dict[str, Any]]


def verify(folder: Path, *arguments: str) -> Verified:
    """Run it in `folder`, where its logs go, too."""
    rows = folder / "rows.json"
    command = [str(SAMZAPY), "verify", "--folder", str(folder / "verify"), "--json", str(rows), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in rows.read_text().splitlines()] if rows.exists() else []
    return Verified(done.returncode, done.stdout, done.stderr, found)
