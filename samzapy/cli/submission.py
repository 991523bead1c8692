"""Runs jobs from Python programs: a script, a notebook, a program with a SparkSession, a script of `spark-submit`.

`run` blocks until the job has ended; `submit` returns a `RunningJob` at once. Neither ends the process, and errors are
the classes of `samzapy.errors`. The job runs in a thread of its own, so the program's event loop and its signal
handlers stay in place; `run` alone handles an interrupt and SIGTERM while it waits.
"""

from __future__ import annotations

import difflib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, final

from samzapy.api.task import AnyTask
from samzapy.cli.output import status_console
from samzapy.cli.progress import RunDisplay
from samzapy.config.loader import load_job
from samzapy.coordinator.status import JobStatus
from samzapy.errors import ConfigError
from samzapy.pipeline import Pipeline
from samzapy.plugins import is_importing, path_of
from samzapy.runner.base import JobOutcome, RunOptions
from samzapy.runner.launch import checked, launch
from samzapy.runner.local import runner_of
from samzapy.runner.stopping import StopSwitch

logger = logging.getLogger(__name__)

#: A job file, by path, its flat pairs, or a pipeline, itself or as `module:pipeline`.
JobSource = Mapping[str, Any] | Path | str | Pipeline

_LONGEST_WAIT_S = 0.2


@final
class RunningJob:
    """A job that was submitted. As a context manager it stops the job at the end, and waits for it.

    The job goes on as long as the process lives; if that ends, the next run of the job resumes from the last commit.
    """

    def __init__(
        self, name: str, job: Callable[[RunOptions], JobOutcome], display: _Display, stop: StopSwitch, given: object
    ) -> None:
        """Starts the `job`; `stop` stops it. `given` is kept alive: it may hold classes that only this process has."""
        self.name = name
        self._job = job
        self._display = display
        self._stop = stop
        self._given = given
        self._status: JobStatus | None = None
        self._page: str | None = None
        self._outcome: JobOutcome | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        try:
            threading.Thread(target=self._run, name=f"samzapy-{name}", daemon=True).start()
        except BaseException:
            # After an interrupt the thread may run, but the caller gets no handle to stop the job.
            self.stop()
            raise

    @property
    def status(self) -> JobStatus | None:
        """The newest status, a fraction of a second old; None before the job has started."""
        return self._status

    @property
    def page(self) -> str | None:
        """The address of the status page, with the token that reads; None for a run without a page, and before it is
        there."""
        return self._page

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def stop(self) -> None:
        """Make every task commit and stop; returns at once, `wait` waits for the end."""
        self._stop.ask()

    def wait(self, timeout_s: float | None = None) -> JobOutcome:
        """Wait until the job has ended; returns its outcome. `timeout_s`: seconds at most, None for as long as it
        takes.

        Raises the error that ended the job (JobFailed, TaskFailed, ConfigError, EnvironmentFailure, ...), TimeoutError.
        """
        if not self._has_ended_within(timeout_s):
            raise TimeoutError(f"job '{self.name}' has not ended within {timeout_s:g} s: wait again, or stop it")
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def _has_ended_within(self, timeout_s: float | None) -> bool:
        left = float("inf") if timeout_s is None else timeout_s
        # In slices: a signal right before a wait, or to another thread, is handled when the main thread wakes.
        while left > _LONGEST_WAIT_S and not self._ended.wait(_LONGEST_WAIT_S):
            left -= _LONGEST_WAIT_S
        return self._ended.wait(max(0.0, min(left, _LONGEST_WAIT_S)))

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        # An error of the body says more than its effect on the job.
        with nullcontext() if error is None else suppress(Exception):
            self.wait()

    def __repr__(self) -> str:
        state = "running" if not self.done else "ended" if self._error is None else "failed"
        return f"<RunningJob {self.name}: {state}>"

    def _run(self) -> None:
        options = RunOptions(
            on_status=self._on_status, on_event=self._display.event, on_page=self._on_page, stop=self._stop
        )
        try:
            self._outcome = self._job(options)
        except BaseException as error:  # noqa: BLE001  # raised again by `wait`
            self._error = error
        finally:
            self._ended.set()

    def _on_status(self, status: JobStatus) -> None:
        self._status = status
        self._display.status(status)

    def _on_page(self, address: str) -> None:
        self._page = address


class _LoggedEvents(nullcontext[None]):
    """Shows no progress; events are log lines."""

    def event(self, line: str) -> None:
        logger.info("%s", line)

    def status(self, status: JobStatus) -> None:
        """Ignore it."""


_Display = RunDisplay | _LoggedEvents


def submit(
    job: JobSource,
    task: type[AnyTask] | None = None,
    *,
    spark: object = None,
    until_end: bool = False,
    runner: str = "spark",
    progress: bool = False,
    overrides: Mapping[str, Any] | None = None,
    stop: StopSwitch | None = None,
) -> RunningJob:
    """Like `samzapy.submit`, with all overrides in one mapping. `stop` also stops the job."""
    if is_importing():
        # The job would wait for the import that waits for the job.
        message = "the module of a job runs a job when it is imported: do so below if __name__ == '__main__':"
        raise ConfigError.of("task.class", None, message)
    on_top = {_key(name): _text(name, value) for name, value in (overrides or {}).items()}
    source: Mapping[str, str] | Path | str
    if isinstance(job, Pipeline):
        source, task = job.plan.keys(on_top), job.task
    elif isinstance(job, Mapping):
        source = {str(key): _text(str(key), value) for key, value in job.items()}
    else:
        source = job
    if task is not None:
        if not isinstance(task, type):
            raise ConfigError.of("task", repr(task), "expected a class, not an object")
        on_top["task.class"] = path_of(task)
    if runner not in {"spark", "local"}:
        raise ConfigError.of("runner", runner, "expected spark or local")
    if spark is not None and runner == "local":
        raise ConfigError.of("runner", runner, "a job with spark=... runs on Spark: leave one of them out")
    loaded = load_job(source, on_top)
    if loaded.folder is None:
        loaded = replace(loaded, folder=_folder_of_program())
    config, built = checked(loaded, lambda: runner_of(runner, spark))
    display = RunDisplay(status_console()) if progress else _LoggedEvents()

    def start(options: RunOptions) -> JobOutcome:
        return launch(config, built, options, display, until_end=until_end)

    return RunningJob(config.name, start, display, stop or StopSwitch(), (job, task, overrides))


def run(job: JobSource, task: type[AnyTask] | None = None, **options: Any) -> JobOutcome:
    """Like `samzapy.run`, with the options of `submit`. An interrupt or SIGTERM stops the job."""
    stop = StopSwitch()
    try:
        running = submit(job, task, stop=stop, **options)
        with _stopped_by_sigterm(stop):
            try:
                return running.wait()
            except KeyboardInterrupt:
                if running.done:
                    raise
                logger.warning("Stopping: every task commits first; a second interrupt does not wait for that")
                stop.ask()
                return running.wait()
    finally:
        # An interrupt may come anywhere. A job without a handle must not go on.
        stop.ask()


@contextmanager
def _stopped_by_sigterm(stop: StopSwitch) -> Iterator[None]:
    """In the main thread of a program without a handler of its own, let the first SIGTERM stop the job, and any further
    one end the process."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def handle(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.ask()

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _folder_of_program() -> Path:
    """The folder of the script that runs, or, in a notebook, the present one: a job of pairs imports its modules from
    there."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    return Path(script).absolute().parent if script else Path.cwd()


def _key(name: str) -> str:
    """The key that a keyword stands for: `task_commit_ms` is task.commit.ms. A name with a dot is a key already. Raises
    ConfigError for a misspelt option."""
    if near := difflib.get_close_matches(name, ("until_end", "runner", "spark", "progress", "task"), n=1, cutoff=0.8):
        raise ConfigError.of(name, None, f"unknown option; did you mean {near[0]}?")
    return name if "." in name else name.replace("_", ".")


def _text(name: str, value: Any) -> str:
    """A value as a job file has it. Raises ConfigError."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float, Path)):
        return str(value)
    if isinstance(value, type):
        return path_of(value)
    if isinstance(value, (list, tuple)):
        return ",".join(_text(name, item) for item in value)
    # Only the type is shown, because the value may be or contain a secret.
    raise ConfigError.of(_key(name), type(value).__name__, "expected text, a number, true or false, or a list")
