"""Brings the user's code to the executors' Python workers.

1. The modules next to the job file go as an archive, unless `job.spark.py.files` names the code to ship.
2. Classes of the program that started the job (a notebook's cell, a script), or made in a function: no module has them
   there, so they are pickled by value, as Spark does with functions. A `msgspec.Struct` keeps its fields in C, where a
   pickler does not find them: it needs a module.
"""

from __future__ import annotations

import dataclasses
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark import cloudpickle

from samzapy import plugins
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError
from samzapy.plugins import PluginError, is_installed, load_name

#: Class paths of objects that no module on an executor has.
_OWN = re.compile(rf"(?:__main__|{re.escape(plugins.__name__)})[:.][A-Za-z_]\w*")
_CACHE = "__msgspec_cache__"
#: The start of the name of an archive of modules.
_ARCHIVE = "samzapy-code-"
#: Bytes of code next to a job file that are still shipped by themselves.
_MOST_BYTES = 64 * 1024 * 1024
#: The time of every entry of an archive, so that equal code makes equal archives.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def arrive(code: bytes) -> None:
    """Make the code of a job importable in this process. `code`: its `pickled_code`. Raises ConfigError for code that
    this Python cannot read."""
    # Spark puts the archive first, by a path relative to the executor's folder, and the container changes to the
    # driver's. Like the job's folder in the driver, the archive comes after Python's library and the packages.
    sys.path[:] = sorted(map(os.path.abspath, sys.path), key=lambda place: Path(place).name.startswith(_ARCHIVE))
    if not code:
        return
    try:
        objects = cloudpickle.loads(code)
    except Exception as cause:
        message = (
            f"an executor's Python cannot read the code of the program ({type(cause).__name__}: {cause}): put it, "
            "and what it uses, into a module beside the job file, and install what it imports there"
        )
        raise ConfigError.of("task.class", None, message) from cause
    for path, result in objects.items():
        plugins.place(path, result)


def pickled_code(config: JobConfig) -> bytes:
    """The objects of the program that a job names, pickled by value, by class path; empty if modules have all. Raises
    ConfigError for a class that cannot be pickled."""
    result: dict[str, Any] = {}
    for key, value in config.resolved.items():
        for path in _OWN.findall(value):
            try:
                result[path] = load_name(path)
            except PluginError as cause:
                raise ConfigError.of(key, path, str(cause)) from cause
    if not result:
        return b""
    written = io.BytesIO()
    try:
        _Pickler(written).dump(result)
    except Exception as cause:
        message = (
            f"cannot be pickled for the executors ({type(cause).__name__}: {cause}): put it, and what it uses, into a "
            "module beside the job file"
        )
        raise ConfigError.of("task.class", ", ".join(result), message) from cause
    return written.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # pyspark is not typed here
    """Spark's own, which would lose the fields of structs without a word."""

    def reducer_override(self, obj: Any) -> Any:
        if type(obj).__module__ == "dataclasses" and type(obj).__qualname__ == "_FIELD_BASE":
            # Dataclasses compare these by identity, which Spark 3.5 does not keep: the class would have no fields.
            return getattr, (dataclasses, obj.name)
        if isinstance(obj, type) and _is_own(obj):
            if hasattr(obj, "__struct_fields__"):
                raise TypeError(f"{obj.__name__} is a msgspec.Struct")
            if _CACHE in vars(obj):
                # The decoder of a dataclass, which cannot be pickled; msgspec makes another one.
                delattr(obj, _CACHE)
        return super().reducer_override(obj)


def _is_own(found: type) -> bool:
    """Whether no module has the class by its name, or only this program."""
    if found.__module__ == "__main__":
        return True
    named: Any = sys.modules.get(found.__module__)
    for name in found.__qualname__.split("."):
        named = getattr(named, name, None)
    return named is not found


def shipped_files(config: JobConfig, scratch: Path) -> tuple[str, ...]:
    """The files that Spark ships for a job: `job.spark.py.files`, else an archive of the modules next to the job file,
    which is written to `scratch` and must stay there as long as executors start. Raises ConfigError."""
    if config.spark.py_files or config.folder is None:
        return config.spark.py_files
    try:
        modules = dict(_modules(config.folder))
        size = sum(path.stat().st_size for path in modules.values())
        if size > _MOST_BYTES:
            message = (
                f"the modules beside the job file have {size:,} B, more than is shipped automatically "
                f"({_MOST_BYTES:,} B): name the files that the job needs"
            )
            raise ConfigError.of("job.spark.py.files", None, message)
        texts = {name: modules[name].read_bytes() for name in sorted(modules)}
    except OSError as cause:
        message = f"the modules beside the job file cannot be read ({cause}): name the files that the job needs"
        raise ConfigError.of("job.spark.py.files", None, message) from cause
    return (str(_archive(texts, scratch)),) if texts else ()


def _modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """The Python files of a folder: its modules, its packages, and other modules below it that are imported already.
    Hidden files are left out: for an unsaved `name.py`, Emacs makes a dangling link `.#name.py`."""
    packages = [package.parent.rglob("*.py") for package in folder.glob("*/__init__.py")]
    for path in chain(folder.glob("*.py"), *packages):
        name = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield str(name), path
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py") or not Path(file).is_relative_to(folder) or is_installed(file):
            continue
        # A module in an archive is not a file: in YARN's cluster mode pyspark itself is in one next to the job file.
        if Path(file).is_file():
            yield str(Path(file).relative_to(folder)), Path(file)


def _archive(texts: Mapping[str, bytes], scratch: Path) -> Path:
    """An archive with a name derived from its contents: Spark ignores a second file of one name, even with other
    contents. An existing file stays as it is, because executors of another job may be reading it."""
    digest = sha256(repr(texts).encode()).hexdigest()[:12]
    path = scratch / f"{_ARCHIVE}{digest}.zip"
    if path.exists():
        return path
    part = scratch / f".{path.name}.{uuid4().hex}"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as built:
        # Python looks for a package without __init__.py by its folder.
        for folder in sorted({f"{item}/" for name in texts for item in Path(name).parents if item.name}):
            built.writestr(zipfile.ZipInfo(folder, _NO_TIME), b"")
        for name, text in texts.items():
            built.writestr(zipfile.ZipInfo(name, _NO_TIME), text)
    part.replace(path)
    return path
