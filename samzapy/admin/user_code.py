"""Makes the code of a job importable, imports the classes that its file names, and checks them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from samzapy.api.event_time import StateCheckpointTask
from samzapy.api.serde import Serde
from samzapy.api.task import AnyTask
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.config.streams import StreamConfig
from samzapy.container.outputs.producers import StateTransactions, state_transactions
from samzapy.container.side_inputs import load_processors
from samzapy.container.tasks.task_builder import check_timers, load_task_class
from samzapy.errors import ConfigError, ConfigProblem, noted, raise_if_any
from samzapy.plugins import import_also_from
from samzapy.serializers import StreamSerdes, serde_registry, task_serdes
from samzapy.storage.spec import StoreSpec, store_specs
from samzapy.system.choosers import load_chooser
from samzapy.system.clients import system_factory

_PY_FILES = "job.spark.py.files"
_ARCHIVES = "job.spark.conf.spark.archives"


def make_importable(config: JobConfig) -> None:
    """Make the code of a job importable here: the modules next to its file, and the files that it ships. Raises
    ConfigError."""
    folder = [] if config.folder is None else [str(config.folder)]
    import_also_from([*_shipped(config.spark.py_files), *folder])


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
    raise_if_any(problems)
    return entries


def check_archives(archives: Iterable[str]) -> None:
    """Raise ConfigError for archives that are not on this machine; archives with a URL are left to Spark."""
    missing = [item for item in archives if "://" not in item and not Path(item.partition("#")[0]).is_file()]
    raise_if_any(ConfigProblem(_ARCHIVES, item, "file not found") for item in missing)


@dataclass(frozen=True)
class JobCode:
    """The classes of a job file, its serdes, and the transactions that its systems allow."""

    state: StateTransactions
    task_class: type[AnyTask]
    engines: Mapping[str, StoreSpec]
    serdes: Mapping[str, Serde]
    streams: StreamSerdes


def imported_code(config: JobConfig) -> JobCode:
    """Make the code of a job importable, and import and check its classes. Raises ConfigError, EnvironmentFailure."""
    _check_folder(config.folder)
    make_importable(config)
    return checked_code(config)


#: The first folder with modules whose job this process has imported.
_first_folder: Path | None = None


def _check_folder(folder: Path | None) -> None:
    """Refuse a second job whose modules are in another folder: Python has one module of a name."""
    global _first_folder  # noqa: PLW0603  # a process has one set of modules
    if folder is None or not any(chain(folder.glob("*.py"), folder.glob("*/__init__.py"))):
        return
    folder = folder.resolve()
    if _first_folder is None:
        _first_folder = folder
    elif folder != _first_folder:
        raise ConfigError.of(
            "task.class",
            None,
            f"this process has the modules next to the job file in {_first_folder}, and Python has one module of a "
            f"name: run the job in {folder} in another process, or put both job files into one folder",
        )


def checked_code(config: JobConfig) -> JobCode:
    """Import the classes that a job file names, and check that they, their settings and the keys of the job fit
    together. Connects to nothing, and creates nothing. Raises ConfigError with all problems."""
    registry = serde_registry(config)
    named: list[StreamConfig | StoreConfig] = [*config.streams.values(), *config.stores.values()]
    serde_names = {name for item in named for name in (item.key_serde, item.msg_serde) if name}
    checks: list[Callable[[], object]] = [
        *(partial(system_factory, settings) for settings in config.systems.values()),
        *(partial(registry.__getitem__, name) for name in sorted(serde_names)),
        partial(load_processors, config.stores),
        partial(load_chooser, config),
        partial(check_archives, config.spark.archives),
    ]
    problems: list[ConfigProblem] = []
    with noted(problems):
        task_class = check_task_class(config.task.task_class)
    with noted(problems):
        engines = store_specs(config)
    with noted(problems):
        serdes = task_serdes(config)
    for check in checks:
        with noted(problems):
            check()
    raise_if_any(dict.fromkeys(problems))
    with noted(problems):
        state = state_transactions(config)
    with noted(problems):
        streams = StreamSerdes(config, serdes, task_class)
    with noted(problems):
        check_timers(config, task_class)
    with noted(problems):
        _check_own_state(config, task_class)
    raise_if_any(dict.fromkeys(problems))
    return JobCode(state, task_class, engines, serdes, streams)


def _check_own_state(config: JobConfig, task_class: type[AnyTask]) -> None:
    """Refuse stores for a task that keeps its own state: a crash takes that state back to its checkpoint, but not the
    stores."""
    if not issubclass(task_class, StateCheckpointTask):
        return
    logged = sorted(store.name for store in config.stores.values() if store.source is None)
    message = f"{task_class.__name__} keeps a state of its own, replayed messages would be applied to a store twice"
    raise_if_any(ConfigProblem(f"stores.{name}.factory", None, message) for name in logged)


def check_task_class(path: str) -> type[AnyTask]:
    """Import the task class. Raises ConfigError if it cannot be imported, is not a task, or if its constructor needs
    arguments."""
    try:
        task_class = load_task_class(path)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError.of("task.class", None, f"cannot import {path} ({type(error).__name__}: {error})") from error
    # Some classes written in C have no signature.
    with contextlib.suppress(ValueError):
        try:
            inspect.signature(task_class).bind()
        except TypeError as cause:
            message = f"{task_class.__name__}() must take no arguments ({cause}): use init for its set-up"
            raise ConfigError.of("task.class", None, message) from cause
    return task_class
