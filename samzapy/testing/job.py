"""Isolates a job for a test: its streams in this process, its files in one folder, its task class by a name, no port,
no export of metrics."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from samzapy.api.stream import SystemStream
from samzapy.api.task import AnyTask
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job, with_inputs
from samzapy.config.reading import properties as job_files
from samzapy.config.reading.keys import is_name, split_list
from samzapy.config.tasks.patterns import InputPattern
from samzapy.errors import ConfigError, ConfigProblem, EnvironmentFailure, noted
from samzapy.job.transactions import state_transactions
from samzapy.plugins import path_of
from samzapy.system.clients import has_transactions, system_factory
from samzapy.testing.attempt import FACTORY
from samzapy.testing.streams import Partitions, Streams

_MAX_AHEAD = "task.event.time.max.ahead.ms"
#: A job file (by path), or its flat pairs.
JobSource = Mapping[str, str] | Path | str


def tested_job(
    task: type[AnyTask] | None, config: JobSource, overrides: Mapping[str, str] | None, folder: Path
) -> JobConfig:
    """The job of `config` with `overrides` on top, for this test alone.

    `task` replaces `task.class`; None keeps the file's. Pairs need neither `job.name` (default: test) nor keys of a
    system that `task.inputs` or `job.default.system` names. Every system is in memory and new; stores and file
    checkpoints are below `folder`; no store has backups. Nothing listens on a port or exports metrics, and a stall is
    only reported. Raises ConfigError with every problem, including those in the settings of the real systems.
    """
    on_top = dict(job_files.read(overrides or {}).values)
    if task is not None:
        if not isinstance(task, type):
            raise ConfigError([ConfigProblem("task", repr(task), "expected a class, not an object")])
        on_top["task.class"] = path_of(task)
    given = {**job_files.read(config).values, **on_top}
    systems = set(_configured(given))
    own = {system for system in filter(is_name, systems) if f"systems.{system}.samza.factory" in given}
    if isinstance(config, Mapping):
        config = {"job.name": "test", **config}
        systems |= set(_mentioned(given))
    cluster = uuid4()
    real, tested = dict(on_top), dict(on_top)
    # The test's clock has nothing to do with the times of its messages.
    tested.setdefault(_MAX_AHEAD, given.get(_MAX_AHEAD, "0"))
    for system in sorted(filter(is_name, systems)):
        if system not in own:
            real[f"systems.{system}.samza.factory"] = FACTORY
        tested[f"systems.{system}.samza.factory"] = FACTORY
        tested[f"systems.{system}.cluster"] = f"{cluster}-{system}"
    job = load_job(config, tested)
    if own:
        _check_real_systems(config, real, own)
    return _below(folder, job)


def _check_real_systems(config: JobSource, overrides: Mapping[str, str], systems: Iterable[str]) -> None:
    """Raise ConfigError for every value that the job's real systems refuse. Connects to none of them. Missing values,
    such as an address or a certificate's file, are no problem: they may come with the deployment."""
    problems: list[ConfigProblem] = []
    with noted(problems):
        job = load_job(config, overrides)
        for system in sorted(systems):
            # The test does not need a client library that this machine lacks.
            with noted(problems), suppress(EnvironmentFailure):
                system_factory(job.systems[system])
        with noted(problems):
            state_transactions(job, has_transactions)
    refused = dict.fromkeys(problem for problem in problems if problem.value is not None)
    if refused:
        raise ConfigError(refused)


def _configured(given: Mapping[str, str]) -> Iterator[str]:
    return (key.split(".")[1] for key in given if key.startswith("systems.") and key.count(".") > 1)


def _mentioned(given: Mapping[str, str]) -> Iterator[str]:
    yield given.get("job.default.system", "")
    for name in split_list(given.get("task.inputs", "")):
        yield name.partition(".")[0] if "." in name else ""


def _below(folder: Path, job: JobConfig) -> JobConfig:
    """The job with its files below `folder`, and without anything that reaches beyond the test."""
    checkpoint = job.task.checkpoint
    if checkpoint is not None and checkpoint.path is not None:
        checkpoint = replace(checkpoint, path=folder / "checkpoints")
    states = job.state_checkpoint
    if states.path is not None:
        states = replace(states, path=folder / "states")
    watched = job.supervision
    return replace(
        job,
        task=replace(job.task, checkpoint=checkpoint),
        state_checkpoint=states,
        metrics_reporters=tuple(each for each in job.metrics_reporters if each.kind != "otel"),
        prometheus=replace(job.prometheus, port=0),
        page_port=None,
        # `stall_fails` would end the process, which is pytest's.
        supervision=replace(watched, stall_fails=False, query=replace(watched.query, enabled=False)),
        stores={name: replace(store, backup=None) for name, store in job.stores.items()},
        logged_store_base_dir=state_folder(folder),
        non_logged_store_base_dir=state_folder(folder),
    )


def _with_named(job: JobConfig, partitions: Partitions) -> JobConfig:
    """The job with the streams that `partitions` names in place of its patterns. Raises ConfigError for a pattern that
    matches none of them."""
    if not job.task.patterns:
        return job
    names = [] if isinstance(partitions, int) else list(partitions)
    found: dict[InputPattern, list[SystemStream]] = {}
    for pattern in job.task.patterns:
        system = pattern.stream.system
        streams = [SystemStream(system, name.removeprefix(f"{system}.")) for name in names]
        found[pattern] = [stream for stream in streams if pattern.matches(stream)]
    problems = [
        ConfigProblem("task.inputs", str(pattern), "name the streams of the test, as in partitions={'orders-eu': 2}")
        for pattern, streams in found.items()
        if not streams
    ]
    if problems:
        raise ConfigError(problems)
    return with_inputs(job, found)


def state_folder(folder: Path) -> Path:
    """The folder with the stores of a tested job."""
    return folder / "state"


class Workbench:
    """One job with everything that it needs for one test. `close` removes all of it."""

    def __init__(
        self,
        task: type[AnyTask] | None,
        config: JobSource,
        overrides: Mapping[str, str] | None,
        partitions: Partitions,
        clock: Clock,
    ) -> None:
        """Like `tested_job`; creates the streams that the job reads, with `partitions`. Raises ConfigError with
        every problem."""
        self._task = task  # keeps a class alive that only the kit has a name for
        self._folder = Path(tempfile.mkdtemp(prefix="samzapy-test-"))
        try:
            self.job = _with_named(tested_job(task, config, overrides, self._folder), partitions)
            self.streams = Streams(self.job, clock)
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        try:
            self.streams.create_inputs(partitions)
        except BaseException:
            self.close()
            raise

    @property
    def state(self) -> Path:
        """The folder of the stores."""
        return state_folder(self._folder)

    def close(self) -> None:
        """Remove the files, and forget the clusters; `streams` can still be read. Closing twice is allowed."""
        self.streams.forget()
        shutil.rmtree(self._folder, ignore_errors=True)
