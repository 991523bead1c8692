"""Names, as a job file may hold them, for task classes that a test has as objects; also for those made in a function."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from samzapy.api.task import AnyTask
from samzapy.plugins import PluginError, split_path

_numbers = count(1)
_given: WeakValueDictionary[str, type[AnyTask]] = WeakValueDictionary()


def name_of(task: type[AnyTask]) -> str:
    """A class path by which `task` can be loaded in this process, for as long as somebody else holds it."""
    path = f"{task.__module__}:{task.__qualname__}"
    try:
        module, name = split_path(path)
        if getattr(sys.modules.get(module), name, None) is task:
            return path
    except PluginError:
        pass
    name = f"{task.__name__}_{next(_numbers)}"
    _given[name] = task
    return f"{__name__}:{name}"


def __getattr__(name: str) -> Any:
    try:
        return _given[name]
    except KeyError:
        raise AttributeError(name) from None
