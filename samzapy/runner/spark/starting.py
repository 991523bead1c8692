"""Starts Spark during the claim of a job, and reports the reason for a wait before the containers run.

Spark may wait long, or for ever: for a cluster manager that has no room, for executors that do not come up, for a JVM
that hangs. A run never waits in silence: `StartingSpark` says that Spark has not started yet, and ends the run after
`job.spark.start.timeout.ms`; `Unclaimed` reports the containers without an attempt, and Spark's resources for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from types import TracebackType
from typing import Any, final

from samzapy.clock import Clock
from samzapy.coordinator.leases import ContainerState
from samzapy.coordinator.status import ContainerStatus
from samzapy.errors import EnvironmentFailure
from samzapy.runner.spark.application import SparkApplication, one_line
from samzapy.runner.spark.jvm import DriverJvm

logger = logging.getLogger(__name__)

#: Seconds for Spark to warm up. It cannot while it waits for resources that the previous run holds.
_WARM_S = 60.0
#: Seconds without a container before the first line about it. The time to the next line doubles.
_SILENT_S = 20.0
#: Seconds between two looks at a Spark that starts.
_PACE_S = 0.25
#: Seconds that the end of a run waits for a Spark that still starts, to stop it in order, and for one that was killed.
_STARTED_S, _KILLED_S = 30.0, 5.0
#: States of a container that Spark has to start.
_LOST = ContainerState.LOST.value
_WITHOUT_ATTEMPT = (ContainerState.WAITING.value, _LOST)
#: Seconds without an executor after which an application that had some counts as forgotten.
_FORGOTTEN_S = 40.0


class Patience:
    """The times to report a wait: after `_SILENT_S`, and then each time that the wait has doubled."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.over()

    def over(self) -> None:
        """The wait is over: a new one begins now."""
        self._began, self._due = self._clock.monotonic(), _SILENT_S

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return self._clock.monotonic() - self._began

    def is_out(self) -> bool:
        """Whether a line is due; it is due once."""
        if self.waited < self._due:
            return False
        while self._due <= self.waited:
            self._due *= 2
        return True


def _in_thread(name: str, call: Callable[[], Any]) -> Future[Any]:
    """The result of a call in a thread of its own, which does not keep the process from its end."""
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as cause:  # noqa: BLE001  # it is raised where the result is asked for
            result.set_exception(cause)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


@final
class Start:
    """The ways to end a Spark that starts: `close` ends in order what has been `opened`, `kill` ends it at once."""

    def __init__(self) -> None:
        self.opened = ExitStack()
        self._jvm: DriverJvm | None = None
        self._closing = threading.Lock()
        self._given_up = False
        self.killed = False

    def began(self, jvm: DriverJvm) -> None:
        """Spark's JVM runs, and does not answer yet."""
        self._jvm = jvm
        if self.killed:
            jvm.kill()

    def kill(self) -> None:
        """Kill the JVM, now or as soon as there is one."""
        self.killed = True
        if self._jvm is not None:
            self._jvm.kill()

    def close(self, *, gives_up: bool = True) -> None:
        """Close what has been opened. A Spark without a JVM of this run cannot be killed, and may still start after the
        run has `given up`: at its end the start itself closes it then."""
        with self._closing:
            self._given_up |= gives_up
            if self._given_up:
                self.opened.close()

    @property
    def last_line(self) -> str:
        """The last line of the JVM's output, if it has a JVM of this run."""
        return "" if self._jvm is None else f"; its last line: {self._jvm.last_line}"


@final
class StartingSpark:
    """Starts Spark in a thread when entered, and stops it when left."""

    def __init__(
        self,
        start: Callable[[Start], SparkApplication],
        warm_for: int,
        address: str,
        limit_ms: int,
        clock: Clock,
        on_event: Callable[[str], None],
    ) -> None:
        """`start` puts the closers of Spark on `Start.opened`. `warm_for`: the number of containers that `warm`
        prepares Python workers for. `address`: Spark's master. `limit_ms`: the time that Spark may take to start; 0:
        any. `on_event` gets a line when Spark takes long."""
        self._start = start
        self._warm_for = warm_for
        self._address = address
        self._limit_s = limit_ms / 1000
        self._clock = clock
        self._on_event = on_event
        self._spark = Start()

    def __enter__(self) -> StartingSpark:
        self._patience = Patience(self._clock)
        self._started = _in_thread("spark-start", self._begin)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            self._spark.kill()
        if not self._is_over_within(_KILLED_S if self._spark.killed else _STARTED_S):
            self._spark.kill()
            self._is_over_within(_KILLED_S)
        self._spark.close()

    def _begin(self) -> SparkApplication:
        try:
            return self._start(self._spark)
        finally:
            self._spark.close(gives_up=False)

    def application(self, stopped: Callable[[], bool] = bool) -> SparkApplication | None:
        """Spark, once it has started; None, and no Spark at all, if `stopped` says so before.

        Raises EnvironmentFailure, also after the limit, and ConfigError."""
        while not self._is_over_within(0):
            if stopped():
                self._spark.kill()
                return None
            if self._limit_s and self._patience.waited >= self._limit_s:
                last = self._spark.last_line
                self._spark.kill()
                raise EnvironmentFailure(
                    f"job.spark.start.timeout.ms: Spark did not start on {self._address} within {self._limit_s:g} "
                    f"s{last}"
                )
            if self._patience.is_out():
                self._on_event(
                    f"Spark has not started on {self._address} after {self._patience.waited:.0f} "
                    f"s{self._spark.last_line}"
                )
        application: SparkApplication = self._started.result()
        return application

    def warm(self) -> None:
        """Wait until Spark has started and, at most `_WARM_S`, until it has its executors and their Python workers.
        Raises as `application`."""
        spark = self.application()
        if spark is None:
            return
        try:
            _in_thread("spark-warm", lambda: spark.warm(self._warm_for)).result(_WARM_S)
        except Exception as cause:  # noqa: BLE001  # it is about time only
            logger.warning("Spark did not warm up before the takeover: %s", one_line(cause) or "it took too long")

    def _is_over_within(self, seconds: float) -> bool:
        """Whether the start is over, well or not; waits a moment at least."""
        until = self._clock.monotonic() + seconds
        while not wait([self._started], _PACE_S).done:
            if self._clock.monotonic() >= until:
                return False
        return True


@final
class Unclaimed:
    """Reports the containers without an attempt for a long time, and Spark's resources for them."""

    def __init__(self, clock: Clock, spark: SparkApplication, on_event: Callable[[str], None]) -> None:
        self._patience = Patience(clock)
        self._spark = spark
        self._on_event = on_event

    def check(self, containers: Sequence[ContainerStatus]) -> None:
        """Report the containers that still wait. Raises EnvironmentFailure if they wait for an application that its
        master has forgotten."""
        waiting = [each.id for each in containers if each.state in _WITHOUT_ATTEMPT]
        if not waiting:
            self._patience.over()
        elif self._patience.is_out():
            if self._patience.waited >= _FORGOTTEN_S:
                self._spark.check_executors(had_some=any(each.state == _LOST for each in containers))
            noun = "container" if len(waiting) == 1 else "containers"
            few = ", ".join(waiting[:5]) + (f" and {len(waiting) - 5} more" if len(waiting) > 5 else "")
            self._on_event(
                f"{noun} {few}: not started by Spark after {self._patience.waited:.0f} s; it has "
                f"{self._spark.resources()}"
            )
