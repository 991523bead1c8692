"""Finds modules that hide others in a process of several jobs.

Python has one module of a name. A job's own modules are the modules beside its file that define its classes, and the
modules that the text of these imports.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import resolve_name
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.plugins import PluginError, is_installed, split_path

#: Modules that are never a job's own.
_NOT_OF_JOBS = frozenset({"__main__", "samzapy"})


def check_hidden(config: JobConfig, shipped: Sequence[str]) -> None:
    """Check that no module takes the place of another job's module. Call it after the job's classes are imported.
    Raises ConfigError.

    1. A module that this process has loaded from elsewhere must not have the name of a module of the job.
    2. A module of the job must not be found in place of a module that an earlier job has yet to import.
    3. Installed modules, files that the job ships (`shipped`: their places), and equal files may take the place.
    """
    folder = config.folder
    if folder is None:
        return
    hidden: dict[str, str] = {}
    used = _used(config, folder)
    for name, own in sorted(used.items()):
        file, top = getattr(sys.modules.get(name), "__file__", None), name.partition(".")[0]
        if top in _NOT_OF_JOBS or not isinstance(file, str) or is_installed(file):
            continue
        if any(Path(file).is_relative_to(each) for each in shipped) or _equal(Path(file), own):
            continue
        hidden.setdefault(top, f"this process has loaded {file}, which hides {own}")
    for name, (later, own) in _taken_from_others(folder, shipped).items():
        hidden.setdefault(name, f"another job of this process has yet to import {later}, which {own} hides")
    if hidden:
        advice = "give this file another name, or run the job in a process of its own"
        raise ConfigError([ConfigProblem(name, None, f"{files}: {advice}") for name, files in hidden.items()])
    _used_by[folder] = used


#: By folder, the modules that the job of that folder takes from it.
_used_by: dict[Path, Mapping[str, Path]] = {}


def _used(config: JobConfig, folder: Path) -> dict[str, Path]:
    """The modules below the folder that define the job's classes, and the modules that these import, with their
    files."""
    found: dict[str, Path] = {}
    waiting = [module for value in config.resolved.values() for module in _modules_in(value)]
    while waiting:
        name = waiting.pop()
        file = None if name in found else _file_of(name, folder)
        if file is not None:
            found[name] = file
            waiting += _imported_by(name, file)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return found


def _imported_by(name: str, file: Path) -> Iterator[str]:
    """The modules that the text of a module imports, in its functions, too."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.Import():
                    yield from (each.name for each in node.names)
                case ast.ImportFrom():
                    with contextlib.suppress(ImportError):
                        base = resolve_name(f"{'.' * node.level}{node.module or ''}", package)
                        yield from (base, *(f"{base}.{each.name}" for each in node.names))
                case ast.Call(func=ast.Name(id=call) | ast.Attribute(attr=call), args=[ast.Constant(str(module)), *_]):
                    if call in {"import_module", "__import__"}:
                        yield module


def _modules_in(value: str) -> Iterator[str]:
    """The modules of the classes that a configured value may name."""
    for path in value.split(","):
        with contextlib.suppress(PluginError):
            yield split_path(path.strip())[0]


def _taken_from_others(folder: Path, shipped: Iterable[str]) -> dict[str, tuple[Path, Path]]:
    """By module, the file that an earlier job has yet to import, and the file of this job that it would find
    instead."""
    taken: dict[str, tuple[Path, Path]] = {}
    places = [*map(Path, shipped), folder]
    behind = sys.path[sys.path.index(str(folder)) + 1 :] if str(folder) in sys.path else []
    for other, used in _used_by.items():
        for name, file in used.items() if str(other) in behind else ():
            # An imported module stays loaded, and a package finds its own modules by its path.
            own = None if "." in name or name in sys.modules else _file_in(places, name)
            if own is not None and not _equal(own, file):
                taken[name] = file, own
    return taken


def _file_in(places: Iterable[Path], name: str) -> Path | None:
    return next(filter(None, (_file_of(name, place) for place in places)), None)


def _file_of(name: str, folder: Path) -> Path | None:
    """The file of the module of that name below a folder."""
    path = folder.joinpath(*name.split("."))
    files = path / "__init__.py", path.with_name(f"{path.name}.py")
    in_archive = not folder.is_dir()
    return next((file for file in files if (_text(file) is not None if in_archive else file.is_file())), None)


def _equal(loaded: Path, own: Path) -> bool:
    """Whether the two files of a module, or all modules of a package, have the same text."""
    if loaded.resolve() == own.resolve():
        return True
    files = own.parent.rglob("*.py") if own.name == "__init__.py" else [own]
    pairs = [(loaded.parent / file.relative_to(own.parent), file) for file in files if file.is_file()]
    return all(_text(there) == file.read_bytes() for there, file in pairs)


def _text(file: Path) -> bytes | None:
    """The content of a file, or of `module.py` in an archive for `code.zip/module.py`; None without such a file."""
    if file.is_file():
        return file.read_bytes()
    with contextlib.suppress(OSError, KeyError, BadZipFile):
        for archive in filter(Path.is_file, file.parents):
            with ZipFile(archive) as opened:
                return opened.read(file.relative_to(archive).as_posix())
    return None
