"""Starts the container of a local run again after a failure that may pass, such as a broker that does not answer.

The container itself starts again at once, and for some seconds (`RestartingContainer`). A failure that outlasts that is
the business of this module, with the pauses and the limit of a Spark job that is submitted again:
`job.spark.max.resubmits`, `job.spark.resubmit.backoff.*`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from samzapy.clock import Clock
from samzapy.config.spark import SparkConfig
from samzapy.errors import (
    JobTakenOver,
    ProducerError,
    RecordTooLarge,
    RestoreStalled,
    RetriableError,
    SamzapyError,
    TaskMigrated,
    Unreachable,
)
from samzapy.runner.base import JobFailed

#: After these another start may succeed. A lease can be lost to the same silence that a producer fails at.
_MAY_PASS = (RetriableError, ProducerError, Unreachable, RestoreStalled, TaskMigrated)
#: Of those, the failures that the next start would only repeat.
_STAYS = (RecordTooLarge, JobTakenOver)


#: A run that lasted this many times the longest delay was sound; its end is a new failure.
SOUND = 10


class Backoff:
    """Delays that double from `first_s` to `longest_s`, at most `limit` in a row.

    A run that has lasted ten times the longest delay starts the count over. How far it got says less: beside a
    partition with a message that cannot be processed, the others get further with every attempt.
    """

    def __init__(self, limit: int, first_s: float, longest_s: float) -> None:
        self.limit = limit
        self._first_s = first_s
        self._longest_s = longest_s
        self.failures = 0

    def after(self, lasted_s: float) -> float | None:
        """Seconds to wait after a run that failed and had lasted `lasted_s`; None to give up."""
        if lasted_s >= SOUND * self._longest_s:
            self.failures = 0
        if self.failures >= self.limit:
            return None
        self.failures += 1
        return float(min(self._longest_s, self._first_s * 2 ** (self.failures - 1)))


def backoff_of(spark: SparkConfig) -> Backoff:
    """The back-off that the job file asks for, of Spark jobs and of starts in this process alike."""
    return Backoff(spark.max_resubmits, spark.resubmit_backoff_ms / 1000, spark.resubmit_backoff_max_ms / 1000)


class Startable(Protocol):
    """A container that was not started yet."""

    def run(self) -> object:
        """Run it to its end."""

    def stop(self) -> None:
        """Ask it to stop."""


class Restarts:
    """Runs one container of `build` after the other until one ends well. `stop` is for a signal handler or another thread."""

    def __init__(
        self,
        build: Callable[[], Startable],
        backoff: Backoff,
        clock: Clock,
        on_failure: Callable[[SamzapyError, str], None],
        may_restart: Callable[[], bool] = lambda: True,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`on_failure` gets each failure that is followed by another start, and the time of that start in words.
        `may_restart` says whether the job is still this run's. `wait` passes the seconds between two starts, and returns
        early after a stop."""
        self._build = build
        self._backoff = backoff
        self._clock = clock
        self._on_failure = on_failure
        self._may_restart = may_restart
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._current: Startable | None = None

    def stop(self) -> None:
        """Ask for a commit and a graceful stop, and for no further start."""
        self._stopped.set()
        if self._current is not None:
            self._current.stop()

    def run(self) -> None:
        """Run to the end, or to a stop. Raises what a container raises, JobFailed after too many starts in a row."""
        while not self._stopped.is_set():
            container = self._current = self._build()
            if self._stopped.is_set():
                return
            began = self._clock.monotonic()
            try:
                container.run()
            except _MAY_PASS as failure:
                if isinstance(failure, _STAYS) or self._stopped.is_set() or not self._may_restart():
                    raise
                self._pause(failure, self._clock.monotonic() - began)
            else:
                return

    def _pause(self, failure: SamzapyError, lasted_s: float) -> None:
        delay = self._backoff.after(lasted_s)
        if delay is None:
            if not self._backoff.limit:
                raise failure
            message = f"gave up after {self._backoff.failures + 1} failed starts in a row: {failure}"
            raise JobFailed(message, failure.exit_code) from failure
        self._on_failure(failure, f"starting again in {delay:g} s ({self._backoff.failures} of {self._backoff.limit})")
        self._wait(delay)
