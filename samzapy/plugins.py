"""Imports the classes that the configuration names, as `package.module:Name` or `package.module.Name`.

`path_of` gives any class such a name, also one of a function; this module then has the class by that name.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stdout, suppress
from functools import cache
from importlib.machinery import PathFinder
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

_PATH = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")


class PluginError(Exception):
    """Raised when a configured name is not that of a class; the message is one line."""


def split_path(path: str) -> tuple[str, str]:
    """Split `pkg.mod:Name` or `pkg.mod.Name` into module and name. Raises PluginError on anything else."""
    module, _, name = path.rpartition(":") if ":" in path else path.rpartition(".")
    if not _PATH.match(module) or not _PATH.match(name) or "." in name:
        raise PluginError("expected an importable class like my.module:MyTask")
    return module, name


def is_own(kind: type) -> bool:
    """Whether a class is one of samzapy's, not of a plug-in or the job's code."""
    return kind.__module__.startswith("samzapy.")


def load_class(path: str) -> type:
    """Import the class that `path` names. Raises PluginError; an error of the module itself is chained."""
    result = load_name(path)
    if isinstance(result, type):
        return result
    raise PluginError(f"{'.'.join(split_path(path))} is not a class")


def load_name(path: str) -> Any:
    """Import the object that `path` names, any but None. Output of its module goes to standard error. Raises
    PluginError as `load_class` does."""
    module_name, name = split_path(path)
    try:
        # Not for a module that is there: other threads may print meanwhile.
        with nullcontext() if module_name in sys.modules else redirect_stdout(sys.stderr):
            module = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as cause:  # such as that of sys.exit, which must not end the process silently
        reason = " ".join(f"{type(cause).__name__}: {cause}".split())
        hint = f"; a module is named without .py: {module_name[:-3]}:{name}" if module_name.endswith(".py") else ""
        if isinstance(cause, ModuleNotFoundError) and cause.name == module_name.split(".")[0]:
            hint = hint or "; a job's modules are next to its file, in job.spark.py.files or on PYTHONPATH"
        raise PluginError(f"cannot import {module_name} ({reason}{_raised_at(cause)}){hint}") from cause
    result = getattr(module, name, None)
    if result is not None:
        return result
    near = difflib.get_close_matches(name, vars(module), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise PluginError(f"{module_name} has no {name}{hint}{_hidden(module)}")


def is_importing() -> bool:
    """Whether this thread is within the import of a module by `load_name`."""
    return any(frame.f_code is load_name.__code__ for frame, _ in traceback.walk_stack(None))


def _raised_at(cause: BaseException) -> str:
    """The innermost line of the user's own code, as `, at tasks/counts.py:42`. Empty for an error before any of its
    lines ran; a SyntaxError has its line already."""
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<") and not is_installed(frame.filename)
    ]
    return f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


#: Names of the folders that have installed packages.
PACKAGES = frozenset({"site-packages", "dist-packages"})


def is_installed(file: str) -> bool:
    """Whether a module's file belongs to Python or to an installed package, not to a program or a job."""
    return file.startswith(_libraries()) or not PACKAGES.isdisjoint(Path(file).parts)


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of Python's modules and packages, as given and with links resolved."""
    result = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple({f"{item}/" for path in result for item in (path, str(Path(path).resolve()))})


def _hidden(module: ModuleType) -> str:
    """The hint that another file was meant: one of the same name that comes later on the import path, as a user's
    `types.py` does after Python's."""
    name, own = module.__name__, getattr(module, "__file__", None)
    if "." in name or (own is None and hasattr(module, "__path__")):
        return ""
    for entry in sys.path:
        other = PathFinder.find_spec(name, [entry])
        if other is None or other.origin is None or not other.has_location:
            continue
        if own is None or Path(other.origin).resolve() != Path(own).resolve():
            return f"; that is {own or 'a part of Python'}, which hides {other.origin}: give this file another name"
    return ""


_numbers = count(1)
_made: WeakValueDictionary[str, type] = WeakValueDictionary()


def path_of(found: type) -> str:
    """A path that `load_class` understands in this process, as long as the class is alive."""
    path = f"{found.__module__}:{found.__qualname__}"
    with suppress(PluginError):
        module, name = split_path(path)
        if getattr(sys.modules.get(module), name, None) is found:
            return path
    name = f"{found.__name__}_{next(_numbers)}"
    _made[name] = found
    return f"{__name__}:{name}"


def import_also_from(places: Iterable[str]) -> None:
    """Add folders and archives to the end of this process's import path, each once."""
    sys.path += [place for place in dict.fromkeys(places) if place not in sys.path]


def place(path: str, found: object) -> None:
    """Make `load_name` find the object at this path in this process. Its module must be imported."""
    module, name = split_path(path)
    setattr(sys.modules[module], name, found)


def __getattr__(name: str) -> Any:
    try:
        return _made[name]
    except KeyError:
        raise AttributeError(name) from None
