"""Restores the local stores of a job from their changelogs into a folder, beside a running job or without one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from samzapy.checkpoint import manager_for
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.job import JobConfig
from samzapy.config.stores import StoreConfig
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, UnknownStream
from samzapy.job.planner import changelog_partitions
from samzapy.serializers import serde_registry
from samzapy.storage.changelog.restore import ProgressCallback, RestoreResult
from samzapy.storage.engines import load_engines
from samzapy.storage.inspection import store_of
from samzapy.storage.local.directory import store_directory
from samzapy.storage.opening import TaskSettings
from samzapy.storage.startup import begin_task_stores, restore_together
from samzapy.system.clients import SystemClients, job_clients


def rebuild_store(
    config: JobConfig, name: str, base: Path, tasks: Sequence[str], on_progress: ProgressCallback | None = None
) -> dict[str, tuple[RestoreResult, Path]]:
    """Restore the store of these tasks (none: of all) below `base`; returns the results and directories by task.

    Raises ConfigError for a store that keeps no files or has no changelog, EnvironmentFailure for a directory that exists.
    """
    store = store_of(config, name)
    alone = replace(
        config, stores={name: replace(store, clean_on_start=False, backup=None)}, logged_store_base_dir=base
    )
    engines = load_engines(alone)
    if not engines[name].persistent:
        raise ConfigError([ConfigProblem(f"stores.{name}.factory", store.factory, "keeps no files to rebuild")])
    with ExitStack() as cleanup:
        clients = cleanup.enter_context(closing(job_clients(config, "store")))
        chosen = _chosen(_owners(config, store, clients), tasks)
        paths = {task: store_directory(base, config.job_name, name, task) for task in chosen}
        for path in paths.values():
            if path.exists():
                raise EnvironmentFailure(f"{path}: exists already; name a folder that has no such store")
        openings = []
        for task, partition in chosen.items():
            opening = begin_task_stores(
                alone,
                TaskSettings(task, partition, len(chosen)),
                serdes=serde_registry(config),
                engines=engines,
                admin_of=clients.admin,
                clock=SYSTEM_CLOCK,
            )
            cleanup.callback(opening.abandon)
            openings.append(opening)
        stores = restore_together(openings, clients.consumer, SYSTEM_CLOCK, on_progress)
        for opened in stores:
            cleanup.callback(opened.close)
        for opened in stores:
            opened.flush_engines()
        return {task: (opened.restored[name], paths[task]) for task, opened in zip(chosen, stores, strict=True)}


def _owners(config: JobConfig, store: StoreConfig, clients: SystemClients) -> dict[str, int]:
    """The changelog partition of each task: as written down beside the checkpoints, else as a first start numbers them."""
    stream = store.changelog
    if stream is None:
        raise ConfigError([ConfigProblem(f"stores.{store.name}.changelog", None, "is required to rebuild the store")])
    description = clients.admin(stream.system).describe(stream.stream)
    if description is None:
        raise UnknownStream(*stream)
    if config.task.checkpoint is not None:
        with closing(manager_for(config, clients)) as checkpoints:
            known = checkpoints.read_changelog_partitions()
        if known:
            return dict(sorted(known.items(), key=lambda owned: owned[1]))
    tasks = [f"Partition {number}" for number in range(description.partitions)]
    owned = changelog_partitions(dict.fromkeys(tasks), {})
    return dict(sorted(owned.items(), key=lambda each: each[1]))


def _chosen(owners: dict[str, int], tasks: Sequence[str]) -> dict[str, int]:
    for task in tasks:
        if task not in owners:
            raise ConfigError([ConfigProblem("--task", task, f"the job's tasks are {', '.join(owners)}")])
    return {task: owners[task] for task in tasks or owners}
