"""Restarts the container of a local run after a transient failure, such as a broker that does not answer.

The container itself outlasts an outage and restarts at once, for some seconds (`RestartingContainer`). This module
handles failures that last longer, with the pauses and the limit of Spark jobs: `job.spark.max.resubmits`,
`job.spark.resubmit.backoff.max.ms`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from samzapy.clock import Clock
from samzapy.config.job import SparkConfig
from samzapy.errors import (
    JobFailed,
    JobTakenOver,
    ProducerError,
    RecordRefused,
    RestoreStalled,
    RetriableError,
    SamzapyError,
    TaskMigrated,
    Unreachable,
)

#: After these failures another start may succeed. A broker that does not answer may also cost the lease.
_MAY_PASS = (RetriableError, ProducerError, Unreachable, RestoreStalled, TaskMigrated)
#: The classes among them that the next start would only repeat.
_STAYS = (RecordRefused, JobTakenOver)


#: After a run of this many times the longest delay, at least the first, failures are counted from the start again.
SOUND = 10
#: Seconds of the first pause.
_FIRST_S = 1.0


class Backoff:
    """No delay, and then delays that double from `first_s` to `longest_s`, at most `limit` in a row.

    A run of ten times the longest delay resets the count. Progress does not reset it: if one partition has a message
    that cannot be processed, the other partitions still advance with every attempt."""

    def __init__(self, limit: int, first_s: float, longest_s: float) -> None:
        self.limit = limit
        self._first_s = first_s
        self._longest_s = longest_s
        self.failures = 0

    def after(self, lasted_s: float, *, outage: bool = False) -> float | None:
        """Seconds to wait after a run that failed after `lasted_s` seconds; None to give up. An `outage` is not
        counted."""
        if outage:
            return self._longest_s
        if lasted_s >= SOUND * max(self._longest_s, self._first_s):
            self.failures = 0
        if self.failures >= self.limit:
            return None
        self.failures += 1
        return 0.0 if self.failures == 1 else float(min(self._longest_s, self._first_s * 2 ** (self.failures - 2)))


def starts(delay_s: float) -> str:
    """A delay in the words of an event."""
    return f"in {delay_s:g} s" if delay_s else "at once"


def backoff_of(spark: SparkConfig) -> Backoff:
    """The back-off of the job file, for Spark jobs and for restarts in this process."""
    return Backoff(spark.max_resubmits, _FIRST_S, spark.resubmit_backoff_max_ms / 1000)


class Startable(Protocol):
    """A container that has not been started."""

    def run(self) -> object:
        """Run it to its end."""

    def stop(self) -> None:
        """Ask it to stop."""


class Restarts:
    """Runs containers made by `build`, one after the other, until one ends well. Signal handlers and threads may call
    `stop`."""

    def __init__(
        self,
        build: Callable[[], Startable],
        backoff: Backoff,
        clock: Clock,
        on_failure: Callable[[SamzapyError, str], None],
        may_restart: Callable[[], bool] = lambda: True,
        wait: Callable[[float], object] | None = None,
        has_run: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_failure` gets each failure that is followed by a restart, and a phrase about the restart. `may_restart`
        returns whether this run still owns the job. `wait` sleeps between two starts, and returns early after a stop.
        Once a container `has_run`, outages are outlasted: its systems were reached."""
        self._build = build
        self._backoff = backoff
        self._clock = clock
        self._on_failure = on_failure
        self._may_restart = may_restart
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._has_run = has_run
        self._current: Startable | None = None

    def stop(self) -> None:
        """Make the container commit and stop, and do not restart it."""
        self._stopped.set()
        if self._current is not None:
            self._current.stop()

    def run(self) -> None:
        """Run to the end, or to a stop. Raises the container's errors, and JobFailed after too many failed starts in a
        row."""
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
        outage = failure.outage and self._has_run()
        delay = self._backoff.after(lasted_s, outage=outage)
        if delay is None:
            if not self._backoff.limit:
                raise failure
            message = f"gave up after {self._backoff.failures + 1} failed starts in a row: {failure}"
            raise JobFailed(message, failure.exit_code) from failure
        count = "" if outage else f" ({self._backoff.failures} of {self._backoff.limit})"
        self._on_failure(failure, f"starting again {starts(delay)}{count}")
        self._wait(delay)
