"""Looks after the user's code: the modules beside the job file, the files that a job ships, and its task class,
imported within a deadline."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from samzapy.api.task import AnyTask
from samzapy.config.job import JobConfig
from samzapy.container.tasks.task_class import load_task_class
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import import_also_from

_PY_FILES = "job.spark.py.files"
_ARCHIVES = "job.spark.archives"
_TASK_CLASS = "task.class"


def make_importable(config: JobConfig) -> None:
    """Make the code of a job importable here: the modules beside its file, and the files that it ships. Raises
    ConfigError."""
    add_import_paths(config.spark.py_files)
    if config.folder is not None:
        import_also_from([str(config.folder)])


def add_import_paths(py_files: Iterable[str]) -> None:
    """Put the folder of each `.py` file, and each `.zip` or `.egg` itself, on `sys.path`. Raises ConfigError."""
    problems, entries = [], []
    for name in py_files:
        path = Path(name).resolve()
        if path.suffix not in {".py", ".zip", ".egg"}:
            problems.append(ConfigProblem(_PY_FILES, name, "expected .py, .zip or .egg files"))
        elif not path.is_file():
            problems.append(ConfigProblem(_PY_FILES, name, "file not found"))
        else:
            entries.append(str(path.parent if path.suffix == ".py" else path))
    if problems:
        raise ConfigError(problems)
    import_also_from(entries)


def check_archives(archives: Iterable[str]) -> None:
    """Raise ConfigError for archives that are not on this machine; archives with a URL are left to Spark."""
    missing = [each for each in archives if "://" not in each and not Path(each.partition("#")[0]).is_file()]
    if missing:
        raise ConfigError([ConfigProblem(_ARCHIVES, each, "file not found") for each in missing])


def check_task_class(path: str, timeout_s: float = 60.0) -> type[AnyTask]:
    """Import the task class. Output of its module goes to standard error.

    Raises ConfigError if the import takes longer than `timeout_s`, if the class is not a task, or if its constructor
    needs arguments.
    """
    outcome: list[type[AnyTask] | BaseException] = []

    def load() -> None:
        try:
            outcome.append(load_task_class(path))
        except BaseException as error:  # noqa: BLE001  # raised again by the thread that waits
            outcome.append(error)

    # A daemon thread: Python cannot end an import that hangs, only abandon it.
    thread = threading.Thread(target=load, name="samzapy-import", daemon=True)
    with contextlib.redirect_stdout(sys.stderr):
        thread.start()
        thread.join(timeout_s)
    if not outcome:
        raise _problem(f"{path} was not imported within {timeout_s:g} s: work belongs in init, not in the module")
    found = outcome[0]
    if isinstance(found, ConfigError):
        raise found
    if isinstance(found, BaseException):
        raise _problem(f"cannot import {path} ({type(found).__name__}: {found})") from found
    _check_constructor(found)
    return found


def _check_constructor(task: type[AnyTask]) -> None:
    try:
        inspect.signature(task).bind()
    except TypeError as cause:
        raise _problem(f"{task.__name__}() must take no arguments ({cause}): use init for its set-up") from cause
    except ValueError:
        return  # some classes written in C have no signature


def _problem(message: str) -> ConfigError:
    return ConfigError([ConfigProblem(_TASK_CLASS, None, message)])
