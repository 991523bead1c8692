"""The user's code on the driver: what `job.spark.py.files` ships to executors is importable here as well."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from samzapy.errors import ConfigError, ConfigProblem

KEY = "job.spark.py.files"


def add_import_paths(py_files: Iterable[str]) -> None:
    """Put the folder of each `.py` file, and each `.zip` or `.egg` itself, on `sys.path`. Raises ConfigError."""
    problems, entries = [], []
    for name in py_files:
        path = Path(name).resolve()
        if path.suffix not in {".py", ".zip", ".egg"}:
            problems.append(ConfigProblem(KEY, name, "expected .py, .zip or .egg files"))
        elif not path.is_file():
            problems.append(ConfigProblem(KEY, name, "file not found"))
        else:
            entries.append(str(path.parent if path.suffix == ".py" else path))
    if problems:
        raise ConfigError(problems)
    for entry in entries:
        if entry not in sys.path:
            sys.path.append(entry)
