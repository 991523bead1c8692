"""Checks that a job may write to its folders on this machine, and that they have room."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from samzapy.api.engine import StorageEngineFactory
from samzapy.config.job import BASE_DIR_VARIABLE, JobConfig
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.master import Master

#: Least free bytes. With less, a store would last for a few commits only, and a checkpoint for none.
STORE_BYTES, CHECKPOINT_BYTES = 1024 * 1024, 64 * 1024


@dataclass(frozen=True)
class FolderState:
    """The state of a folder, or of the nearest folder above it that exists: `there`.

    `files` is the number of files that can still be created. It and `free_bytes` are None if the file system does not report
    them.
    """

    there: Path
    is_folder: bool
    writable: bool
    owner: int
    free_bytes: int | None
    files: int | None


def check_folders(config: JobConfig, engines: Mapping[str, StorageEngineFactory]) -> None:
    """Raise EnvironmentFailure, with a line for each, for folders that the job cannot write to. Changes nothing.

    Skips the folders of stores if the executors are on other machines.
    """
    found = []
    for key, base, least in _folders(config, engines):
        reason = _reason(base / config.job_name, least)
        if reason is not None:
            found.append(f"{key}: {reason}, got '{base}'")
    if found:
        raise EnvironmentFailure("\n".join(found))


def refusal(state: FolderState, user: int, least: int) -> str | None:
    """The reason why `user` cannot write `least` bytes there; None if there is none."""
    if not state.is_folder:
        return f"expected a folder, {state.there} is not one"
    if not state.writable:
        owner = "" if state.owner == user else f", it belongs to {_name(state.owner)}"
        return f"{_name(user)} may not write to {state.there}{owner}"
    if state.free_bytes is not None and state.free_bytes < least:
        return f"{state.there} has {state.free_bytes:,} B free, expected at least {least:,}"
    if state.files == 0:
        return f"{state.there} is on a file system without free inodes"
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


def _reason(path: Path, least: int) -> str | None:
    try:
        return refusal(look_at(path), os.geteuid(), least)
    except OSError as cause:
        return f"cannot look at {path} ({cause.strerror})"


def look_at(path: Path) -> FolderState:
    """The state of a folder, which need not exist. Raises OSError."""
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    stat, system = there.stat(), os.statvfs(there)
    return FolderState(
        there,
        there.is_dir(),
        os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids),
        stat.st_uid,
        system.f_bavail * system.f_frsize if system.f_blocks else None,
        system.f_favail if system.f_files else None,
    )


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"
