"""Ships a job to the executors, translates its workers' errors, and finds the task of a key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkstemp

from pyspark import SparkContext

from samzapy import errors
from samzapy.admin.job_check import existing, resolved
from samzapy.admin.user_code import make_importable
from samzapy.api.checkpoint import CheckpointManager, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.checkpoint.records import read_changelog_partitions
from samzapy.config.job import JobConfig
from samzapy.config.loader import load_job
from samzapy.config.reading.properties import Masked, literal_secrets
from samzapy.config.stores import StoreConfig
from samzapy.errors import (
    ConfigError,
    ConfigProblem,
    EnvironmentFailure,
    JobTakenOver,
    ProducerError,
    RecordRefused,
    SamzapyError,
    SerdeError,
    StoreRefused,
)
from samzapy.job.model import JobModel
from samzapy.job.planner import InputPartitions, follow_growth, from_json, keeps_state, plan
from samzapy.runner.spark.application import one_line
from samzapy.runner.spark.master import check_secrets, without_sparks_secrets
from samzapy.runner.spark.sources import private_folder
from samzapy.runner.spark.user_code import TravellingCode, shipped_files
from samzapy.system.clients import SystemClients

#: The path of a job file, its flat pairs, or the checked job.
Job = Path | str | Mapping[str, str] | JobConfig


def checked_job(job: Job) -> JobConfig:
    """The job, with the streams that match now in place of patterns, and the user's code importable here. Raises
    ConfigError."""
    config = resolved(job if isinstance(job, JobConfig) else load_job(job))
    make_importable(config)
    return config


@dataclass(frozen=True)
class TravellingJob:
    """The flat file without its secrets, with `${env:NAME}` unresolved: an executor reads its own environment, so
    secrets named in this way do not travel. `directory`: the base of relative paths; None: the executor's. `secrets`: a
    file on this machine with the secrets written into the job file; None for none. `code`: the user's serdes, engines
    and systems.

    It is part of the functions that Spark gets, and Spark keeps those in memory and on disks of its own.
    """

    raw: Mapping[str, str]
    directory: str | None
    secrets: str | None = None
    code: TravellingCode = TravellingCode()  # noqa: RUF009  # frozen

    @classmethod
    def of(cls, config: JobConfig, context: SparkContext) -> TravellingJob:
        """The job, for the executors of a context; they get the files of the job's code.

        Raises ConfigError for code that cannot be shipped, and for secrets in the file, if the executors are on other
        machines."""
        here = on_this_machine(context)
        for path in shipped_files(config, private_folder()):
            context.addPyFile(path)
        if not here:
            check_secrets(config, str(context.master))
        return cls.without_secrets(config, on_this_machine=here)

    @classmethod
    def without_secrets(cls, config: JobConfig, *, on_this_machine: bool) -> TravellingJob:
        """The job for executors on this machine, which read its secrets from a file, or on others."""
        raw = without_sparks_secrets(config.raw)
        written = {key: raw[key] for key in literal_secrets(raw)}
        kept = _kept_here(tuple(sorted(written.items()))) if written and on_this_machine else None
        shown = {key: value for key, value in raw.items() if key not in written}
        # A frame runs no task, so a task that cannot travel does not matter.
        taskless = {key: value for key, value in config.resolved.items() if key != "task.class"}
        code = TravellingCode.of(replace(config, resolved=taskless))
        return cls(Masked(shown, raw.secret), str(Path.cwd()) if on_this_machine else None, kept, code)

    @contextmanager
    def arrived(self) -> Iterator[JobConfig]:
        """The checked job, inside its folder, with its code importable; restores the process's folder at the end.
        Raises ConfigError."""
        self.code.arrive()
        before = Path.cwd()
        if self.directory is not None:
            os.chdir(self.directory)
        try:
            secrets = {} if self.secrets is None else json.loads(Path(self.secrets).read_bytes())
            yield load_job({**self.raw, **secrets})
        finally:
            os.chdir(before)


@cache
def _kept_here(secrets: tuple[tuple[str, str], ...]) -> str:
    """The path of a file with these pairs, for this user only."""
    handle, path = mkstemp(".json", dir=private_folder())
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(dict(secrets), file)
    return path


def on_this_machine(context: SparkContext) -> bool:
    """Whether the executors share this machine's files."""
    return str(context.master).startswith("local")


#: The last line of a Python worker's stack trace, which Spark passes on as text.
_OURS = re.compile(r"^samzapy\.errors\.(\w+): (.*)$", re.MULTILINE)
#: The most special ones come first.
_KINDS = (SerdeError, StoreRefused, RecordRefused, ProducerError, EnvironmentFailure)


def worker_error(cause: Exception) -> SamzapyError:
    """The error that a worker has raised, or an EnvironmentFailure with Spark's own message."""
    matches = _OURS.findall(str(cause))
    if not matches:
        return EnvironmentFailure(f"Spark gave up: {one_line(cause)}")
    name, message = matches[-1]
    raised = getattr(errors, name, SamzapyError)
    if issubclass(raised, JobTakenOver):
        return EnvironmentFailure(message)
    return next((kind for kind in _KINDS if issubclass(raised, kind)), SamzapyError)(message)


_SAY_WHERE = "say where each row belongs (place_by)"


@dataclass(frozen=True)
class JobTasks:
    """A job's tasks as its next start will plan them, and the records that this start would write with the
    checkpoints."""

    model: JobModel
    inputs: Mapping[SystemStream, InputPartitions]
    changelog_partitions: Mapping[str, int]

    @property
    def names(self) -> dict[int, str]:
        """The tasks by their changelog partition."""
        return {task.changelog_partition: task.name for task in self.model.tasks}


def job_tasks(config: JobConfig, clients: SystemClients, checkpoints: CheckpointManager) -> JobTasks:
    """The tasks, planned as a start does, changing nothing. Raises UnknownStream for an input that does not exist,
    EnvironmentFailure for one that has grown to a number the job's state cannot follow."""
    counts = {
        stream: existing(stream, lambda each: clients.admin(each.system).describe(each.stream)).partitions
        for stream in config.task.inputs
    }
    previous = read_changelog_partitions(checkpoints)
    inputs = from_json(checkpoints.read_record(JobRecord.INPUTS).newest)
    inputs = follow_growth(inputs, counts, keeps_state=keeps_state(config.stores))
    model = plan(config, counts, previous, inputs)
    return JobTasks(model, inputs, previous | {task.name: task.changelog_partition for task in model.tasks})


#: Changelog partitions by the key's hash modulo their number: the state of a key is where producers send it.
KeyPlacement = tuple[int, ...]


def key_placement(config: JobConfig, store: StoreConfig, tasks: JobTasks) -> KeyPlacement:
    """The placement of a store's keys if they are the keys of the inputs' messages, hashed as producers do (murmur2).

    Raises ConfigError if that is ambiguous: keys whose bytes differ between input and store, and inputs that send one
    key to several tasks.
    """
    owned = [task.changelog_partition for task in tasks.model.tasks]
    if len(owned) == 1:
        return (owned[0],)
    found: dict[SystemStream, KeyPlacement] = {}
    for stream in config.task.inputs:
        count = tasks.inputs[stream].grouped
        ssps = [SystemStreamPartition(*stream, number) for number in range(count)]
        if config.task.broadcast_inputs.issuperset(ssps):
            continue
        _check_key_serde(config, store, stream)
        found[stream] = tuple(_owner(ssp, store, tasks) for ssp in ssps)
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{stream} ({len(partitions)} partitions)" for stream, partitions in found.items())
        raise _problem(store, f"the inputs {shown} send a key to different tasks; {_SAY_WHERE}")
    if not found:
        raise _problem(store, f"every input is a broadcast one, so no task owns a key; {_SAY_WHERE}")
    return next(iter(found.values()))


def _owner(ssp: SystemStreamPartition, store: StoreConfig, tasks: JobTasks) -> int:
    owners = [task.changelog_partition for task in tasks.model.tasks if ssp in task.ssps]
    if len(owners) != 1:
        raise _problem(store, f"{ssp} is read by {len(owners)} tasks, so none owns its keys; {_SAY_WHERE}")
    return owners[0]


def _check_key_serde(config: JobConfig, store: StoreConfig, stream: SystemStream) -> None:
    serde = config.stream(stream).key_serde or "bytes"
    if config.serdes.get(serde) != config.serdes.get(store.key_serde):
        message = f"the keys of input {stream} are {serde}, so their hash is another one than the store's; {_SAY_WHERE}"
        raise _problem(store, message, store.key_serde)


def _problem(store: StoreConfig, message: str, value: str | None = None) -> ConfigError:
    return ConfigError([ConfigProblem(f"stores.{store.name}.key.serde", value, message)])
