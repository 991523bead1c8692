"""Looks after the user's code: the modules beside the job file, the files that a job ships, and its task class,
imported within a deadline, and the other classes that it names. Refuses modules that another job of the process hides."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import resolve_name
from pathlib import Path

from samzapy.api.engine import StorageEngineFactory
from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.serde import Serde
from samzapy.api.task import AnyTask
from samzapy.checkpoint.states import store_factory
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.container.side_inputs import load_processors
from samzapy.container.tasks.task_class import check_timers, load_task_class
from samzapy.errors import ConfigError, ConfigProblem, noted
from samzapy.job.transactions import StateTransactions, state_transactions
from samzapy.plugins import PluginError, import_also_from, is_installed, split_path
from samzapy.serializers import StreamSerdes, serde_registry, task_serdes
from samzapy.storage.engines import load_engines
from samzapy.system.choosers.stack import load_chooser
from samzapy.system.factories import has_transactions, system_factory

_PY_FILES = "job.spark.py.files"
_ARCHIVES = "job.spark.archives"
_TASK_CLASS = "task.class"
#: Modules that no job has a file of.
_NOT_OF_JOBS = frozenset({"__main__", "samzapy"})


def make_importable(config: JobConfig) -> None:
    """Make the code of a job importable here: the modules beside its file, and the files that it ships. Raises
    ConfigError."""
    beside = [] if config.folder is None else [str(config.folder)]
    import_also_from([*_shipped(config.spark.py_files), *beside])


def _shipped(py_files: Iterable[str]) -> list[str]:
    """The folder of each `.py` file, and each `.zip` or `.egg` itself. Raises ConfigError."""
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
    return entries


def check_hidden(config: JobConfig) -> None:
    """Check that this process has loaded no other module in place of one that the job takes from beside its file: Python has one
    module of a name, so a second job would run with the modules of the first. Nor may it take the place of one that an earlier
    job has yet to import. Call it after the job's classes are imported. Raises ConfigError.

    Installed modules, files that the job ships, and equal files may take the place.
    """
    folder = config.folder
    if folder is None:
        return
    shipped = _shipped(config.spark.py_files)
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


#: The modules that each job of this process takes from its folder, by the folder.
_used_by: dict[Path, Mapping[str, Path]] = {}


def _used(config: JobConfig, folder: Path) -> dict[str, Path]:
    """The modules below the folder that the job's classes are in, and those that these import, with their files."""
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
    """The modules that a module imports anywhere in its text, also later on, in its functions."""
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
    """The files that earlier jobs will look for, and those they would find among this one's, by the name of the module."""
    taken: dict[str, tuple[Path, Path]] = {}
    places = [*map(Path, shipped), folder]
    behind = sys.path[sys.path.index(str(folder)) + 1 :] if str(folder) in sys.path else []
    for other, used in _used_by.items():
        for name, file in used.items() if str(other) in behind else ():
            # An imported module stays what it is, and a package knows where its own are.
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
    return next((file for file in files if file.is_file()), None)


def _equal(loaded: Path, own: Path) -> bool:
    """Whether the two files of a module, or all modules of a package, have the same text."""
    if loaded.resolve() == own.resolve():
        return True
    files = own.parent.rglob("*.py") if own.name == "__init__.py" else [own]
    pairs = [(loaded.parent / file.relative_to(own.parent), file) for file in files if file.is_file()]
    return all(there.is_file() and there.read_bytes() == file.read_bytes() for there, file in pairs)


def check_archives(archives: Iterable[str]) -> None:
    """Raise ConfigError for archives that are not on this machine; archives with a URL are left to Spark."""
    missing = [each for each in archives if "://" not in each and not Path(each.partition("#")[0]).is_file()]
    if missing:
        raise ConfigError([ConfigProblem(_ARCHIVES, each, "file not found") for each in missing])


@dataclass(frozen=True)
class JobCode:
    """The classes of a job file, its serdes, and the transactions that its systems allow."""

    state: StateTransactions
    task_class: type[AnyTask]
    engines: Mapping[str, StorageEngineFactory]
    serdes: Mapping[str, Serde]
    streams: StreamSerdes


def imported_code(config: JobConfig) -> JobCode:
    """Make the code of a job importable, import and check its classes, and refuse modules that another job hides. Raises
    ConfigError, EnvironmentFailure."""
    make_importable(config)
    code = checked_code(config)
    check_hidden(config)
    return code


def checked_code(config: JobConfig) -> JobCode:
    """Import the classes that a job file names, and check that they, their settings and the keys of the job fit together.
    Connects to nothing, and creates nothing. Raises ConfigError with all problems."""
    registry = serde_registry(config)
    named: list[StreamConfig | StoreConfig] = [*config.streams.values(), *config.stores.values()]
    checks: list[Callable[[], object]] = [
        *(partial(system_factory, settings) for settings in config.systems.values()),
        *(partial(registry.__getitem__, name) for name in sorted(_serdes(named))),
        partial(load_processors, config.stores),
        partial(load_chooser, config),
        partial(check_archives, config.spark.archives),
    ]
    problems: list[ConfigProblem] = []
    with noted(problems):
        task_class = check_task_class(config.task.task_class)
    with noted(problems):
        engines = load_engines(config)
    with noted(problems):
        serdes = task_serdes(config)
    for check in checks:
        with noted(problems):
            check()
    _refuse(problems)
    with noted(problems):
        state = state_transactions(config, has_transactions)
    with noted(problems):
        streams = StreamSerdes(config, serdes, task_class)
    with noted(problems):
        check_timers(config, task_class)
    with noted(problems):
        _check_own_state(config, task_class)
    _refuse(problems)
    return JobCode(state, task_class, engines, serdes, streams)


def _refuse(problems: Collection[ConfigProblem]) -> None:
    """Raise ConfigError for the problems, if there are any; each is told once."""
    if problems:
        raise ConfigError(dict.fromkeys(problems))


def _serdes(named: Iterable[StreamConfig | StoreConfig]) -> set[str]:
    return {name for each in named for name in (each.key_serde, each.msg_serde) if name}


def _check_own_state(config: JobConfig, task_class: type[AnyTask]) -> None:
    """Refuse stores for a task that keeps its own state: a crash takes that state back to its checkpoint, but not the stores."""
    if not issubclass(task_class, StateCheckpointTask):
        return
    store_factory(config.state_checkpoint.factory)
    logged = sorted(store.name for store in config.stores.values() if store.source is None)
    if logged:
        message = f"{task_class.__name__} keeps a state of its own, replayed messages would be applied to a store twice"
        raise ConfigError([ConfigProblem(f"stores.{name}.factory", None, message) for name in logged])


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
