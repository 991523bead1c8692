"""Runs one attempt of one container, in the Python worker of an executor.

Only the coordinator's address and the container's id travel with the task. The token comes from the executor's
environment, the job from the coordinator, and `${env:X}` is read here. Clients and stores are made here and closed
here: Spark forks workers, and nothing of theirs survives a fork.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator

from pyspark import TaskContext

from samzapy.api.lease import ContainerReport
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.container.standby import standby_container
from samzapy.coordinator.client import CoordinatorClient, HttpLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    ForeignRecords,
    JobTakenOver,
    OffsetOutOfRange,
    SamzapyError,
    TooFewFiles,
    UnknownStream,
)
from samzapy.job.model import replica_of
from samzapy.runner.spark.process import die_with_parent, end_predecessor, this_process
from samzapy.runner.spark.settings import TOKEN

logger = logging.getLogger(__name__)

#: Exit status of a worker that has lost its lease while the user's code does not return.
LOST_EXIT = 75

#: Failures that another attempt would only repeat: the task then ends, and the driver reads why.
PERMANENT = (ConfigError, UnknownStream, OffsetOutOfRange, ForeignRecords, JobTakenOver, TooFewFiles)

#: Whether an attempt runs in this process.
_running = False


class AttemptFailed(Exception):
    """Raised in the worker so that Spark tries again; the driver knows the reason already."""


def run_container(url: str, container_ids: Iterable[str]) -> Iterator[ContainerReport]:
    """The function given to `mapPartitions`: run the containers (one a partition), yield their last reports."""
    for container_id in container_ids:
        report = attempt(url, container_id)
        if report is not None:
            yield report


def attempt(url: str, container_id: str) -> ContainerReport | None:
    """Register, build, run; None after a permanent failure. Raises AttemptFailed, RetriableError, TaskMigrated."""
    global _running  # noqa: PLW0603  # the question is about the process
    if _running:
        raise AttemptFailed(f"container {container_id}: another attempt was left open in this Python worker")
    die_with_parent()
    token = os.environ.get(TOKEN)
    if token is None:
        raise EnvironmentFailure(f"{TOKEN} is not in the executor's environment: set by the driver, removed on the way")
    client = CoordinatorClient(url, token)
    _running = True
    try:
        lease, spec = client.register(container_id, this_process(_spark_task()))
        if lease.predecessor is not None:
            end_predecessor(lease.predecessor)
        return _run(client, lease, spec, container_id)
    finally:
        _running = False
        client.close()


def _run(client: CoordinatorClient, lease: HttpLease, spec: JobSpec, container_id: str) -> ContainerReport | None:
    try:
        if spec.directory is not None:
            os.chdir(spec.directory)
        config = load_job(spec.raw)
        model = spec.model.container(container_id)
        if replica_of(container_id):
            return standby_container(config, model, lease, on_lost=_leave).run()
        made = build_container(
            config,
            model,
            lease,
            ends=spec.ends,
            on_lost=_leave,
            run_id=spec.run_id,
            transactions=spec.transactions,
        )
        return made.run()
    except SamzapyError as error:
        permanent = isinstance(error, PERMANENT)
        heard = _report(client, container_id, lease.epoch, error, permanent=permanent)
        if permanent and heard:
            return None
        raise AttemptFailed(f"container {container_id}: {type(error).__name__}: {error}") from error
    except Exception as error:
        unexpected = SamzapyError(f"{type(error).__name__}: {error}")
        _report(client, container_id, lease.epoch, unexpected)
        raise AttemptFailed(f"container {container_id}: {unexpected}") from error


def _spark_task() -> int | None:
    context = TaskContext.get()
    return None if context is None else context.taskAttemptId()


def _report(
    client: CoordinatorClient, container_id: str, epoch: int, error: SamzapyError, *, permanent: bool = False
) -> bool:
    try:
        client.fail(container_id, epoch, error, permanent=permanent)
    except SamzapyError as cause:
        logger.warning("The coordinator did not hear why container %s failed (%s): %s", container_id, error, cause)
        return False
    return True


def _leave(why: str) -> None:
    """The lease is gone and `process` does not return: nothing of this attempt may be written any more."""
    logger.error("%s; ending this process", why)
    os._exit(LOST_EXIT)
