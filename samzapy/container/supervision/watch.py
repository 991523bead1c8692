"""Watches a container for its operators: lag, stalls, log lines. The container's reports carry them to the driver. And
publishes its metrics, from a thread of its own, since that may wait for a broker.

A container is stalled when, for `task.stall.ms`,

1. no look at the ends of the inputs was answered, and it processed nothing (mostly, its broker is unreachable),
2. the thread that runs the tasks has been in one call (the user's code, a commit, a transaction) and processed nothing,
   or
3. it had nothing to process although there are records, behind a transaction of another producer that is still open.

The look costs one walk up a stack, once a report.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias, final

from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord
from samzapy.clock import Clock
from samzapy.config.job import JobConfig
from samzapy.config.supervision import ReporterConfig
from samzapy.container.supervision.heartbeat import keep_running
from samzapy.container.supervision.lag import LagWatch, Progress, close_anyway
from samzapy.container.supervision.logs import Activity, CarriedLines, activity_of, stack_as_text, stack_of, waited_for
from samzapy.container.supervision.outage import CONTAINER
from samzapy.job.lease import ContainerLease, Facts, Stall, UserFailure
from samzapy.job.planner import ContainerModel
from samzapy.metrics import Publish, Registry, SnapshotHeader, reporters
from samzapy.queries.committed import CommittedStores
from samzapy.system.clients import SystemClients

logger = logging.getLogger(__name__)

#: Seconds between two checks for due metrics: intervals are whole seconds.
_PACE_S = 0.25
#: Seconds to wait for the acknowledgement of a snapshot, and for the last snapshots at the container's end.
_ACK_S, _LAST_S = 5.0, 10.0


def ignore_stall(_: Stall) -> None:
    """The default of `on_stalled`: the stall is in the reports."""


#: Serves the HTTP port of a container, or standby, with these metrics and stores: a context.
ServePort: TypeAlias = Callable[
    [JobConfig, ContainerModel, ContainerLease, Registry, CommittedStores], AbstractContextManager[object]
]


def no_port(*_: object) -> AbstractContextManager[object]:
    """For a container without a port."""
    return nullcontext()


@dataclass(frozen=True)
class ContainerProcess:
    """The process around a container: its waiting log lines, its forced end, and how it serves its HTTP port.

    1. `on_stalled` is called once for each stall in the user's code, if the job file says that such a stall is a
       failure.
    2. `on_lost` is called when the lease is lost and the run loop still runs one lease duration later (a stuck
       `process`).

    Both are called on the thread that reports. `serve_port` makes the context in which the port is served.
    """

    lines: CarriedLines = field(default_factory=CarriedLines)
    on_stalled: Callable[[Stall], None] = ignore_stall
    on_lost: Callable[[str], None] = keep_running
    serve_port: ServePort = no_port


#: A process that is not there for the container alone.
OWN_PROCESS = ContainerProcess()


@final
class ContainerWatch:
    """A context around containers that run one after the other; `facts` is for their reports, and may be called from
    any thread."""

    def __init__(
        self,
        lag: LagWatch,
        clock: Clock,
        stall_s: float,
        lines: CarriedLines,
        on_stalled: Callable[[Stall], None] = ignore_stall,
    ) -> None:
        """`stall_s` 0: no check for stalls. During an outage only stalls of the user's code are logged. `on_stalled`:
        as of `ContainerProcess`."""
        self._lag = lag
        self._clock = clock
        self._stall_s = stall_s
        self._lines, self._on_stalled = lines, on_stalled
        self._thread_id = 0
        self._doing: tuple[str, object] | None = None
        self._progress: object = None
        self._since = self._progress_since = clock.monotonic()
        self._reported: str | None = None
        self._one_at_a_time = threading.Lock()

    def __enter__(self) -> ContainerWatch:
        self._thread_id = threading.get_ident()
        self._lag.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._lag.__exit__()

    def follow(self, progress: Callable[[], Progress]) -> None:
        self._lag.follow(progress)

    def facts(self, phase: str, progress: object, handled: tuple[UserFailure, ...] = ()) -> Facts:
        """The facts for a report of that phase. `progress` is equal in two calls if nothing was done between them;
        `handled` are the failures since the last call that did not end the attempt."""
        with self._one_at_a_time:
            lines, left_out = self._lines.take()
            stalled, of_user = self._stalled(phase, progress) if self._stall_s else (None, False)
            begun = stalled is not None and self._reported != stalled.reason
            self._reported = None if stalled is None else stalled.reason
        if stalled is not None and begun:
            level = logging.DEBUG if self._lag.outages and not of_user else logging.WARNING
            logger.log(level, "stalled: %s%s", stalled, f"\n{stalled.stack}" if of_user else "")
            if of_user:
                self._on_stalled(stalled)
        if phase == "running":
            self._lag.outages.answered(CONTAINER)
        return Facts(self._lag.take(), stalled, handled, lines, left_out)

    def _stalled(self, phase: str, progress: object) -> tuple[Stall | None, bool]:
        now = self._clock.monotonic()
        frame = stack_of(self._thread_id) if phase in {"starting", "restoring", "running"} else None
        activity = activity_of(frame) or waited_for(frame)
        doing = activity.doing if activity is not None else phase
        if self._doing != (doing, progress):
            self._doing, self._since = (doing, progress), now
        if self._progress != progress:
            self._progress, self._progress_since = progress, now
        seconds = now - self._since
        silent_s = self._lag.silent_s
        if silent_s >= self._stall_s and now - self._progress_since >= self._stall_s:
            return Stall(self._lag.trouble, silent_s), False
        if seconds < self._stall_s or frame is None:
            return None, False
        if activity is None and phase == "running":
            held = self._lag.held_by_transactions
            return (Stall(f"waits for a transaction to end in {', '.join(held[:3])}", seconds) if held else None), False
        about = activity or Activity(f"{phase}, without progress", of_user=False)
        return Stall(about.doing, seconds, stack_as_text(frame)), about.of_user


@final
class Reporting:
    """A context that publishes metrics as often as the job file says, and once at its end."""

    def __init__(
        self,
        wanted: Sequence[ReporterConfig],
        header: SnapshotHeader,
        tasks: frozenset[str],
        metrics: Registry,
        clients: SystemClients,
        clock: Clock,
    ) -> None:
        """Connects to nothing yet; without `wanted` reporters nothing is ever started. `header` names the container in
        each snapshot of `metrics`; `tasks` names the groups that belong to tasks; `clients`: for this thread
        alone. Raises EnvironmentFailure for a reporter's library that is not installed."""
        self._host = header.host.encode()
        self._clients = clients
        self._reporters = reporters(wanted, metrics, header, self._publisher, clock, tasks)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samzapy-metrics", daemon=True)

    def __enter__(self) -> Reporting:
        if self._reporters:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._reporters:
            self._thread.join(_LAST_S)
        if self._thread.is_alive():
            logger.warning("The last metrics were not published within %g s", _LAST_S)

    def _run(self) -> None:
        while not self._closed.wait(_PACE_S):
            for reporter in self._reporters:
                reporter.tick()
        for reporter in self._reporters:
            reporter.report()
        close_anyway(self._clients, "metrics")

    def _publisher(self, stream: SystemStream) -> Publish:
        """Sends snapshots to the stream, all of a host to one partition, as Samza does. Raises SamzapyError."""

        def publish(snapshot: bytes) -> None:
            try:
                producer = self._clients.producer(stream.system)
                producer.send([OutgoingRecord(stream.stream, None, snapshot, partition_key=self._host)])
                producer.flush(_ACK_S)
            except Exception:
                # A failed producer cannot be used again; the next snapshot makes another.
                close_anyway(self._clients, "metrics")
                raise

        return publish
