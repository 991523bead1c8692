"""samzapy: Samza-style tasks with changelog-backed local state, in Python, on Spark executors.

A job is a properties file and a `StreamTask`. Import everything that a task needs from here.

CONTRIBUTING.md has the map of the packages, and the path of a message through them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from samzapy.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from samzapy.admin.queries import JobQueries
    from samzapy.api.checkpoint import Checkpoint
    from samzapy.api.collector import (
        ControlMessage,
        Drain,
        EndOfStream,
        MessageCollector,
        RequestScope,
        Sink,
        TaskAttempt,
        TaskCoordinator,
        Watermark,
    )
    from samzapy.api.context import ContainerContext, Context, JobContext, MetricsRegistry, TaskContext
    from samzapy.api.envelope import IncomingMessageEnvelope, MessageBatch, OutgoingMessageEnvelope
    from samzapy.api.event_time import TimerClock, Timers
    from samzapy.api.kv import KeyValueIterator, KeyValueSnapshot, KeyValueStore
    from samzapy.api.serde import Serde, SerdeFactory
    from samzapy.api.stream import SystemStream, SystemStreamPartition
    from samzapy.api.task import (
        AnyTask,
        AsyncStreamTask,
        BatchTask,
        ClosableTask,
        CopartitionedTask,
        CoroutineTask,
        DrainListenerTask,
        EndOfStreamListenerTask,
        InitableTask,
        SideInputsProcessor,
        StreamTask,
        TaskCallback,
        TimerTask,
        WatermarkListenerTask,
        WindowableTask,
    )
    from samzapy.cli.submission import RunningJob
    from samzapy.errors import SamzapyError
    from samzapy.pipeline import (
        Collect,
        Count,
        Distinct,
        Early,
        Hopping,
        Max,
        Mean,
        Min,
        OnChange,
        OnClose,
        Pipeline,
        Sessions,
        Sliding,
        Sum,
        Top,
        Tumbling,
        Within,
        field,
    )
    from samzapy.runner.base import JobOutcome

__version__ = VERSION

__all__ = [
    "AsyncStreamTask",
    "BatchTask",
    "Checkpoint",
    "ClosableTask",
    "Collect",
    "ContainerContext",
    "Context",
    "ControlMessage",
    "CopartitionedTask",
    "CoroutineTask",
    "Count",
    "Distinct",
    "Drain",
    "DrainListenerTask",
    "Early",
    "EndOfStream",
    "EndOfStreamListenerTask",
    "Hopping",
    "IncomingMessageEnvelope",
    "InitableTask",
    "JobContext",
    "KeyValueIterator",
    "KeyValueSnapshot",
    "KeyValueStore",
    "Max",
    "Mean",
    "MessageBatch",
    "MessageCollector",
    "MetricsRegistry",
    "Min",
    "OnChange",
    "OnClose",
    "OutgoingMessageEnvelope",
    "Pipeline",
    "RequestScope",
    "SamzapyError",
    "Serde",
    "SerdeFactory",
    "Sessions",
    "SideInputsProcessor",
    "Sink",
    "Sliding",
    "StreamTask",
    "Sum",
    "SystemStream",
    "SystemStreamPartition",
    "TaskAttempt",
    "TaskCallback",
    "TaskContext",
    "TaskCoordinator",
    "TimerClock",
    "TimerTask",
    "Timers",
    "Top",
    "Tumbling",
    "Watermark",
    "WatermarkListenerTask",
    "WindowableTask",
    "Within",
    "__version__",
    "field",
    "query",
    "run",
    "submit",
]


#: The modules of the names. A name is imported when it is first used, because the command imports this package before
#: it can handle a Ctrl-C, and all names take 0.1 s.
_MODULES = (
    "samzapy.api.task",
    "samzapy.api.stream",
    "samzapy.api.envelope",
    "samzapy.api.collector",
    "samzapy.api.context",
    "samzapy.api.kv",
    "samzapy.api.checkpoint",
    "samzapy.api.event_time",
    "samzapy.api.serde",
    "samzapy.errors",
    "samzapy.pipeline",
)
#: Names available after `import samzapy` alone, like `samzapy.errors.ConfigError`.
_PACKAGES = ("api", "errors")


def __getattr__(name: str) -> Any:
    """The public name, when it is first used. Raises AttributeError."""
    if name in __all__:
        result = (getattr(module, name) for module in map(import_module, _MODULES) if hasattr(module, name))
        # Several modules import the `field` of dataclasses.
        value = globals()[name] = next(item for item in result if getattr(item, "__module__", "") != "dataclasses")
        return value
    if name in _PACKAGES:
        return import_module(f"samzapy.{name}")
    raise AttributeError(f"module 'samzapy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def query(job: Mapping[str, str] | Path | str, address: str | None = None, *, deadline_s: float = 30.0) -> JobQueries:
    """The committed entries of a running job with `job.query.enabled=true`: `query(job).store("counts").get(key)`.

    `job`: the path of the job file, or its keys as a mapping. `address`: the address that the run has printed, with
    its token; None: the run on this machine. `deadline_s`: seconds until a query without an answer fails. Raises
    ConfigError.
    """
    # An HTTP client is of no use to a task.
    from samzapy.admin.queries import job_queries  # noqa: PLC0415

    return job_queries(job, address, deadline_s=deadline_s)


def run(
    job: Mapping[str, Any] | Path | str | Pipeline,
    task: type[AnyTask] | None = None,
    *,
    spark: object = None,
    until_end: bool = False,
    runner: str = "spark",
    progress: bool = True,
    **overrides: Any,
) -> JobOutcome:
    """Run a job until it ends or is stopped: `run("job.properties", until_end=True).status.processed`.

    1. `job`: the path of the job file, its keys as a mapping, or a Pipeline. `task` replaces `task.class`; it may be a
       class of a notebook or of the script itself. `until_end` stops at the current ends of the inputs.
    2. `spark`: the SparkSession (or SparkContext) to run on. The job does not stop it, and its settings stay. None:
       the session of this process or of `spark-submit`, otherwise a new Spark for this run. `runner="local"` runs the
       job in this process, without Spark.
    3. `overrides` override keys of the file, with `_` for each dot: `task_commit_ms=1000`. Pass keys that contain `_`
       or `-` as `**{"job.non-logged.store.base.dir": "/data"}`.
    4. On the first interrupt (Ctrl-C, or the stop button of a notebook) or the first SIGTERM every task commits and
       stops.

    Raises the errors of `samzapy.errors`: ConfigError with all problems of the job, EnvironmentFailure, JobFailed,
    TaskFailed and others.
    """
    from samzapy.cli.submission import run as run_job  # noqa: PLC0415  # a task needs none of it

    return run_job(job, task, spark=spark, until_end=until_end, runner=runner, progress=progress, overrides=overrides)


def submit(
    job: Mapping[str, Any] | Path | str | Pipeline,
    task: type[AnyTask] | None = None,
    *,
    spark: object = None,
    until_end: bool = False,
    runner: str = "spark",
    progress: bool = False,
    **overrides: Any,
) -> RunningJob:
    """Start a job like `run`, and return a handle at once. As a context manager the handle stops the job at the end of
    the block.

    The handle has `wait()`, `stop()`, `status`, `page` and `done`. The job runs in a thread of this process, and ends
    with it. Raises ConfigError and EnvironmentFailure for problems before the start. `wait` raises later errors.
    """
    from samzapy.cli.submission import submit as submit_job  # noqa: PLC0415  # a task needs none of it

    return submit_job(
        job, task, spark=spark, until_end=until_end, runner=runner, progress=progress, overrides=overrides
    )
