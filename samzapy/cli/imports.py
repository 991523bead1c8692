"""The user's code, looked at from outside: what a job file names, imported under a deadline."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading

from samzapy.api.task import AnyTask
from samzapy.container.tasks.task_class import load_task_class
from samzapy.errors import ConfigError, ConfigProblem

_KEY = "task.class"


def check_task_class(path: str, timeout_s: float = 60.0) -> type[AnyTask]:
    """Import the task class; what its module prints goes to standard error.

    Raises ConfigError when it cannot be imported within `timeout_s`, is no task, or cannot be made without arguments.
    """
    outcome: list[type[AnyTask] | BaseException] = []

    def load() -> None:
        try:
            outcome.append(load_task_class(path))
        except BaseException as error:  # noqa: BLE001  # carried over to the thread that waits
            outcome.append(error)

    # A daemon: an import that hangs cannot be ended, only left behind.
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
        raise _problem(f"{task.__name__}() must take no arguments ({cause}): use init for what it needs") from cause
    except ValueError:
        return  # no signature to be had, as of some classes written in C


def _problem(message: str) -> ConfigError:
    return ConfigError([ConfigProblem(_KEY, None, message)])
