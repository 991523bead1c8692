"""Runs one attempt of one container, in the Python worker of an executor.

The task carries only the coordinator's address, with the fingerprint of its certificate, and the container's id. The
token comes from the executor's environment, the job from the coordinator, and `${env:X}` is resolved here. Clients and
stores are opened and closed here, because Spark forks its workers, and neither clients nor stores survive a fork. The
worker as a process:

1. A Python worker of Spark does not know its executor. But the worker is a descendant of the executor's process, which
   a cluster starts with `--executor-id` and `--hostname`.
2. A worker must not outlive the process that forked it: an orphan would go on writing.
3. A superseded attempt ends by itself, unless its process is stopped (SIGSTOP): then it keeps the locks of its local
   stores, and the records in its producer, until it is continued. The coordinator knows the process of each attempt, so
   on the same machine a new attempt kills the old one before it takes over. It kills a process only if boot, process
   namespace and start time prove that it is the right one. On another machine the old attempt holds no lock that we
   need, and lease and fencing suffice.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import select
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import psutil
from pyspark import TaskContext

from samzapy.clock import boot_id, process_start
from samzapy.config.loader import load_job
from samzapy.container.errors.user_failures import one_line, user_failure, user_line
from samzapy.container.restart import build_container
from samzapy.container.standby import StandbyContainer
from samzapy.container.supervision.logs import container_logging
from samzapy.container.supervision.watch import ContainerProcess, ServePort
from samzapy.coordinator.client import CoordinatorClient, HttpLease
from samzapy.coordinator.port import PortSettings, container_port
from samzapy.coordinator.wire import AttemptProcess, JobSpec, Place
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    FailedCall,
    ForeignRecords,
    HandshakeFailed,
    JobTakenOver,
    NotAuthorised,
    OffsetOutOfRange,
    PositionVoid,
    SamzapyError,
    TaskFailed,
    TooFewFiles,
    UnknownStream,
)
from samzapy.job.lease import HttpAddress, Stall
from samzapy.job.planner import replica_of
from samzapy.runner.base import TOKEN
from samzapy.runner.spark.user_code import arrive
from samzapy.version import VERSION, refusal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Make the kernel kill this process when its parent ends. If the parent has ended already, kill this process now.

    Linux only; elsewhere the lease alone ends an orphan, later.
    """
    parent = os.getppid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        refused = libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if not refused and (os.getppid() != parent or parent == 1):
        os.kill(os.getpid(), signal.SIGKILL)


_HOST, _EXECUTOR = "--hostname", "--executor-id"


def this_place() -> Place | None:
    """The executor of this process; None if it has none, as with a `local` master."""
    with suppress(psutil.Error):
        for parent in psutil.Process().parents():
            if (result := place_of(parent.cmdline())) is not None:
                return result
    return None


def place_of(command: Sequence[str]) -> Place | None:
    """The executor that this command line starts; None for other commands."""
    words = list(command)
    if _HOST not in words or _EXECUTOR not in words:
        return None
    host, executor = (words[words.index(name) + 1 : words.index(name) + 2] for name in (_HOST, _EXECUTOR))
    return Place(host[0], executor[0]) if host and executor else None


logger = logging.getLogger(__name__)

#: Seconds to wait for the end of a killed process: it may be writing a core dump, or waiting for a disk.
_GONE_S = 10.0


def this_process(spark_task: int | None) -> AttemptProcess | None:
    """The identity of this process; None outside Linux, where the kernel does not provide it."""
    try:
        scope = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path, a name
    except OSError:
        return None
    boot, started = boot_id(), process_start(os.getpid())
    if not boot or not started:
        return None
    return AttemptProcess(f"{boot} {scope}", os.getpid(), started, spark_task, this_place())


def end_predecessor(predecessor: AttemptProcess) -> bool:
    """Kill it if it still runs on this machine, and wait for its end; returns whether it was killed."""
    here = this_process(None)
    if here is None or here.machine != predecessor.machine or here.pid == predecessor.pid:
        return False
    try:
        handle = os.pidfd_open(predecessor.pid)
    except OSError:
        return False
    try:
        # The handle stands for one process, so from here on a reuse of the pid cannot go unnoticed.
        if process_start(predecessor.pid) != predecessor.started:
            return False
        return _kill(handle, predecessor.pid)
    finally:
        os.close(handle)


def _kill(handle: int, pid: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError as cause:
        logger.warning("Process %d runs this container under an older epoch, and cannot be killed: %s", pid, cause)
        return False
    logger.warning("Killed process %d: it ran this container under an older epoch", pid)
    if not select.select([handle], [], [], _GONE_S)[0]:
        logger.warning("Process %d has not ended %g s after it was killed", pid, _GONE_S)
    return True


#: Exit status of a worker that lost its lease while the user's code does not return.
LOST_EXIT = 75

#: Failures that another attempt would only repeat: the Spark task then ends well, and the driver fails the job.
PERMANENT = (
    ConfigError,
    UnknownStream,
    OffsetOutOfRange,
    ForeignRecords,
    JobTakenOver,
    HandshakeFailed,
    NotAuthorised,
    TooFewFiles,
    PositionVoid,
)

#: Whether an attempt runs in this process.
_running = False


class AttemptFailed(Exception):
    """Raised in the worker so that its Spark job fails; the driver already has the reason."""


def run_task(version: str, work: bytes, container_ids: Iterable[str]) -> Iterator[None]:
    """The function for `mapPartitions`: run the container in each partition; yields nothing.

    Every version of samzapy has it under this name and with these parameters, so an executor with another one than the
    driver's `version` refuses `work`, the pickled coordinator and code, before it unpickles anything. Raises
    EnvironmentFailure.
    """
    if version != VERSION:
        raise EnvironmentFailure(refusal(version))
    coordinator, code = pickle.loads(work)  # noqa: S301  # the driver's own
    for container_id in container_ids:
        attempt(coordinator, container_id, code)
    return iter(())


def attempt(coordinator: HttpAddress, container_id: str, code: bytes) -> None:
    """Register, accept the user's code, build and run. Returns after a permanent failure, too. Raises AttemptFailed,
    RetriableError, TaskMigrated."""
    global _running  # noqa: PLW0603  # the question is about the process
    if _running:
        raise AttemptFailed(f"container {container_id}: another attempt still runs in this Python worker")
    die_with_parent()
    token = os.environ.get(TOKEN)
    if token is None:
        raise EnvironmentFailure(f"{TOKEN}: something has removed it from the executor's environment")
    client = CoordinatorClient(coordinator.url, token, coordinator.fingerprint)
    _running = True
    try:
        context = TaskContext.get()
        task = None if context is None else context.taskAttemptId()
        lease, spec = client.register(container_id, this_process(task))
        if lease.predecessor is not None:
            end_predecessor(lease.predecessor)
        serve_port = partial(container_port, PortSettings.facing(coordinator, token))
        _run(client, lease, spec, container_id, serve_port, code)
    finally:
        _running = False
        client.close()


def _run(
    client: CoordinatorClient, lease: HttpLease, spec: JobSpec, container_id: str, serve_port: ServePort, code: bytes
) -> None:
    try:
        # Only now, so that the coordinator gets the reason why it cannot be read.
        arrive(code)
        if spec.directory is not None:
            os.chdir(spec.directory)
        config = load_job(spec.raw)
        model = spec.model.container(container_id)
        if replica_of(container_id):
            with container_logging(config.supervision.log, config.job_name, container_id):
                StandbyContainer(config, model, lease, on_lost=_leave, serve_port=serve_port).run()
                return

        def give_up(stall: Stall) -> None:
            """End the process: the user's code does not return, so nothing else ends the attempt."""
            error = TaskFailed(f"stalled: {stall} (task.stall.policy=fail)")
            _report(client, container_id, lease.epoch, error)
            _leave(str(error))

        with container_logging(config.supervision.log, config.job_name, container_id) as lines:
            process = ContainerProcess(lines, give_up, _leave, serve_port)
            container = build_container(
                config,
                model,
                lease,
                ends=spec.ends,
                run_id=spec.run_id,
                transactions=spec.transactions,
                process=process,
            )
            container.run()
    except SamzapyError as error:
        if not _report(client, container_id, lease.epoch, error, permanent=isinstance(error, PERMANENT)):
            raise AttemptFailed(f"container {container_id}: {type(error).__name__}: {error}") from error
    except Exception as error:
        unexpected = unexpected_failure(container_id, error)
        if not _report(client, container_id, lease.epoch, unexpected):
            raise AttemptFailed(f"container {container_id}: {unexpected}") from error


def unexpected_failure(container_id: str, error: Exception) -> SamzapyError:
    """The failure of an attempt by an error that is none of samzapy's. The host may be short of threads or disk for a
    moment, so failures of several containers are not the same one again."""
    failure = SamzapyError(f"{type(error).__name__}: {one_line(error)} ({user_line(error) or 'in samzapy'})")
    failure.call = FailedCall("", f"an attempt of container {container_id}")
    failure.__cause__ = error
    return failure


def _report(
    client: CoordinatorClient, container_id: str, epoch: int, error: SamzapyError, *, permanent: bool = False
) -> bool:
    """Report a failure; returns whether the driver has noted that another attempt is useless, so that Spark need not
    retry."""
    try:
        return client.fail(container_id, epoch, error, permanent=permanent, user=user_failure(error))
    except SamzapyError as cause:
        logger.warning("The coordinator was not told why container %s failed (%s): %s", container_id, error, cause)
        return False


def _leave(why: str) -> None:
    """End the process: the lease is lost and `process` does not return, so this attempt must not write from now on."""
    logger.error("%s; ending this process", why)
    os._exit(LOST_EXIT)
