"""Checks that a job may write to its folders on this machine, and that they have room."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from pathlib import Path

from samzapy.api.engine import StorageEngineFactory
from samzapy.config.job import BASE_DIR_VARIABLE, JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.master import Master

#: Least free bytes. With less, a store would last for a few commits only, and a checkpoint for none.
STORE_BYTES, CHECKPOINT_BYTES = 1024 * 1024, 64 * 1024


def check_folders(config: JobConfig, engines: Mapping[str, StorageEngineFactory]) -> None:
    """Raise EnvironmentFailure, with a line for each, for folders that the job cannot write to. Changes nothing.

    Skips the folders of stores if the executors are on other machines.
    """
    problems = []
    for key, base, least in _folders(config, engines):
        reason = refusal(base / config.job_name, least)
        if reason is not None:
            problems.append(f"{key}: {reason}, got '{base}'")
    if problems:
        raise EnvironmentFailure("\n".join(problems))


def refusal(path: Path, least: int) -> str | None:
    """The reason why this process cannot write `least` bytes below `path`, or the nearest folder above it that exists;
    None if it can."""
    place = path
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    try:
        stat, system = place.stat(), os.statvfs(place)
    except OSError as cause:
        return f"cannot read {path} ({cause.strerror})"
    if not place.is_dir():
        return f"expected a folder, {place} is not one"
    if not os.access(place, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        owner = "" if stat.st_uid == os.geteuid() else f", it belongs to {_name(stat.st_uid)}"
        return f"{_name(os.geteuid())} may not write to {place}{owner}"
    # Some file systems report neither.
    if system.f_blocks and system.f_bavail * system.f_frsize < least:
        return f"{place} has {system.f_bavail * system.f_frsize:,} B free, expected at least {least:,}"
    if system.f_files and not system.f_favail:
        return f"{place} is on a file system without free inodes"
    return None


def _folders(config: JobConfig, engines: Mapping[str, StorageEngineFactory]) -> Iterator[tuple[str, Path, int]]:
    if config.spark.master is None or Master.parse(config.spark.master).on_this_machine:
        local = [store for store in config.stores.values() if engines[store.name].persistent]
        if any(store.changelog is not None for store in local):
            key = BASE_DIR_VARIABLE if os.environ.get(BASE_DIR_VARIABLE) else "job.logged.store.base.dir"
            yield key, config.logged_store_base_dir, STORE_BYTES
        if any(store.changelog is None for store in local):
            yield "job.non-logged.store.base.dir", config.non_logged_store_base_dir, STORE_BYTES
    if config.task.checkpoint is not None and config.task.checkpoint.path is not None:
        yield "task.checkpoint.path", config.task.checkpoint.path, CHECKPOINT_BYTES
    if config.state_checkpoint.path is not None:
        yield "state.checkpoint.path", config.state_checkpoint.path, CHECKPOINT_BYTES


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"
