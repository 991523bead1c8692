"""Runs one attempt of one container, in the Python worker of an executor.

Only the coordinator's address and the container's id travel with the task. The token comes from the executor's
environment, the job from the coordinator, and `${env:X}` is read here. Clients and stores are made here and closed
here: Spark forks workers, and nothing of theirs survives a fork. The worker as a process:

1. Spark does not tell its Python workers their executor. Every executor of a cluster is started with `--executor-id` and
   `--hostname`, and the worker descends from it.
2. A worker must not outlive the process that forked it: an orphan would go on writing.
3. A superseded attempt lets go by itself, unless it is stopped: then it holds the locks of its local stores, and what it
   has handed to its producer, until it is continued. The coordinator knows the process of each attempt, so on the same
   machine the new attempt kills the old one before it takes anything over. It kills only a process that is provably the
   one: the same boot of the same kernel, the same scope of process numbers, the same start. On another machine there is
   no lock of ours to hold, and the lease and the fence have to do.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import psutil
from pyspark import TaskContext

from samzapy.config.loader import load_job
from samzapy.container.errors.user_failures import one_line, user_failure, user_line
from samzapy.container.restart import build_container
from samzapy.container.standby import standby_container
from samzapy.container.supervision.log_files import container_logging
from samzapy.container.supervision.watch import ContainerProcess
from samzapy.coordinator.client import CoordinatorClient, HttpLease
from samzapy.coordinator.wire import AttemptProcess, JobSpec, Place
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    FailedCall,
    ForeignRecords,
    JobTakenOver,
    OffsetOutOfRange,
    SamzapyError,
    TaskFailed,
    TooFewFiles,
    UnknownStream,
)
from samzapy.job.facts import Stall
from samzapy.job.lease import ContainerReport
from samzapy.job.model import replica_of
from samzapy.runner.base import TOKEN
from samzapy.runner.spark.daemon import preload

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; returns only if the parent is still there.

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
    """Where this process runs; None if it descends from no executor, as with a `local` master."""
    try:
        for parent in psutil.Process().parents():
            found = place_of(parent.cmdline())
            if found is not None:
                return found
    except psutil.Error:
        return None
    return None


def place_of(command: Sequence[str]) -> Place | None:
    """The executor that is started by this command; None for any other."""
    words = list(command)
    if _HOST not in words or _EXECUTOR not in words:
        return None
    host, executor = (words[words.index(name) + 1 : words.index(name) + 2] for name in (_HOST, _EXECUTOR))
    return Place(host[0], executor[0]) if host and executor else None


logger = logging.getLogger(__name__)

#: How long a killed process may take to be gone, in seconds: it may be writing a core, or wait for a disk.
_GONE_S = 10.0


def this_process(spark_task: int | None) -> AttemptProcess | None:
    """This process as an attempt; None where the kernel does not tell (not Linux)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        scope = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # no path, a name
        started = _started(os.getpid())
    except OSError:
        return None
    return (
        None if started is None else AttemptProcess(f"{boot} {scope}", os.getpid(), started, spark_task, this_place())
    )


def end_predecessor(predecessor: AttemptProcess) -> bool:
    """Kill it if it still runs here, and wait until it is gone; whether there was anything to kill."""
    here = this_process(None)
    if here is None or here.machine != predecessor.machine or here.pid == predecessor.pid:
        return False
    try:
        handle = os.pidfd_open(predecessor.pid)
    except OSError:
        return False
    try:
        # From here on the number cannot be given to another process unnoticed: the handle stands for this one.
        if _started(predecessor.pid) != predecessor.started:
            return False
        return _kill(handle, predecessor.pid)
    finally:
        os.close(handle)


def _kill(handle: int, pid: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError as cause:
        logger.warning("Pid %d runs this container under an older epoch, and cannot be killed: %s", pid, cause)
        return False
    logger.warning("Killed pid %d: it ran this container under an older epoch", pid)
    if not select.select([handle], [], [], _GONE_S)[0]:
        logger.warning("Pid %d has not ended %g s after it was killed", pid, _GONE_S)
    return True


def _started(pid: int) -> int | None:
    """When a process was started, in ticks since the boot; None if there is no such process."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name, in parentheses, may hold anything; after it, the 20th field is the start.
    return int(line.rpartition(")")[2].split()[19])


#: Exit status of a worker that has lost its lease while the user's code does not return.
LOST_EXIT = 75

#: Failures that another attempt would only repeat: the task then ends, and the driver reads why.
PERMANENT = (ConfigError, UnknownStream, OffsetOutOfRange, ForeignRecords, JobTakenOver, TooFewFiles)

#: Whether an attempt runs in this process.
_running = False


class AttemptFailed(Exception):
    """Raised in the worker so that Spark tries again; the driver knows the reason already."""


#: Seconds that a worker that only warms its executor holds its slot, so that the others get workers as well.
_WARM_S = 0.3


def warm_up(_: Iterable[int]) -> None:
    """Import what a container needs, which takes longest where it has to be read from the disk."""
    preload()
    threading.Event().wait(_WARM_S)


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
            with container_logging(config.supervision.log, config.job_name, container_id):
                return standby_container(config, model, lease, on_lost=_leave).run()

        def give_up(stall: Stall) -> None:
            """The user's code does not return, so nothing but the end of the process ends the attempt."""
            error = TaskFailed(f"stalled: {stall} (task.stall.policy=fail)")
            _report(client, container_id, lease.epoch, error)
            _leave(str(error))

        with container_logging(config.supervision.log, config.job_name, container_id) as lines:
            process = ContainerProcess(lines, give_up, _leave)
            made = build_container(
                config,
                model,
                lease,
                ends=spec.ends,
                run_id=spec.run_id,
                transactions=spec.transactions,
                process=process,
            )
            return made.run()
    except SamzapyError as error:
        if _report(client, container_id, lease.epoch, error, permanent=isinstance(error, PERMANENT)):
            return None
        raise AttemptFailed(f"container {container_id}: {type(error).__name__}: {error}") from error
    except Exception as error:
        unexpected = SamzapyError(f"{type(error).__name__}: {one_line(error)} ({user_line(error) or 'in samzapy'})")
        unexpected.call = FailedCall("", "an attempt")
        unexpected.__cause__ = error
        if _report(client, container_id, lease.epoch, unexpected):
            return None
        raise AttemptFailed(f"container {container_id}: {unexpected}") from error


def _spark_task() -> int | None:
    context = TaskContext.get()
    return None if context is None else context.taskAttemptId()


def _report(
    client: CoordinatorClient, container_id: str, epoch: int, error: SamzapyError, *, permanent: bool = False
) -> bool:
    """Returns whether the driver knows that another attempt is of no use: Spark then has nothing to try again."""
    try:
        return client.fail(container_id, epoch, error, permanent=permanent, user=user_failure(error))
    except SamzapyError as cause:
        logger.warning("The coordinator did not hear why container %s failed (%s): %s", container_id, error, cause)
        return False


def _leave(why: str) -> None:
    """The lease is gone and `process` does not return: nothing of this attempt may be written any more."""
    logger.error("%s; ending this process", why)
    os._exit(LOST_EXIT)
