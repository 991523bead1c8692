"""What a job file names that lies on this machine, while its containers run on others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from samzapy.config.job import BASE_DIR_VARIABLE, LOGGED_STORE_BASE_DIR, JobConfig
from samzapy.config.stores import backup
from samzapy.config.tasks import checkpoint, state_checkpoint
from samzapy.errors import ConfigError, ConfigProblem
from samzapy.runner.spark.master import Master
from samzapy.system.factories import system_factory


def check_reach(config: JobConfig) -> tuple[str, ...]:
    """Raise ConfigError, with everything at once, for what the executors would not find, or each find for itself.
    Returns warnings: what each has for itself at the price of time only. Asks nothing of a master on this machine."""
    if config.spark.master is None:
        return ()
    master = Master.parse(config.spark.master)
    if master.on_this_machine:
        return ()
    problems = [*_systems(config, master), *_folders(config, master)]
    if problems:
        raise ConfigError(problems)
    return tuple(_state(config, master))


def _systems(config: JobConfig, master: Master) -> Iterator[ConfigProblem]:
    for name, settings in config.systems.items():
        where = system_factory(settings).kept_on_this_machine(settings)
        if where is not None:
            message = f"its streams are in {where}, out of reach of the executors of {master.address}"
            yield ConfigProblem(f"systems.{name}.samza.factory", settings.factory, message)


def _folders(config: JobConfig, master: Master) -> Iterator[ConfigProblem]:
    for key, path in _paths(config):
        if path and "://" not in path and not Path(path).is_absolute():
            message = (
                f"expected an absolute path that all hosts share: the executors of {master.address} work elsewhere"
            )
            yield ConfigProblem(key, path, message)


def _paths(config: JobConfig) -> Iterator[tuple[str, str | None]]:
    if config.task.checkpoint is not None:
        yield checkpoint.PATH.name, config.task.checkpoint.path
    yield state_checkpoint.PATH.name, config.state_checkpoint.path
    for store in config.stores.values():
        if store.backup is not None:
            yield backup.PATH.at(store=store.name), store.backup.path


def _state(config: JobConfig, master: Master) -> Iterator[str]:
    base = config.logged_store_base_dir
    if not base.is_absolute() and any(store.changelog is not None for store in config.stores.values()):
        yield (
            f"{LOGGED_STORE_BASE_DIR.name}: '{base}' is relative, and the executors of {master.address} work in folders that "
            f"no later run uses, so each start restores from the changelogs; name a folder of the hosts, here or there by "
            f"{BASE_DIR_VARIABLE}"
        )
