"""Runs the driver's side of a job, wherever its containers run: the coordinator, signals, and the table of checks.

1. `OwnershipWatch` checks whether a newer run has taken the job over, and whether this run was asked to drain, or to hand
   the job over.
2. `ClockKeeper` records the job's checkpoint clock.
3. `StopSignals` asks the job to stop at the first SIGTERM, SIGINT or SIGHUP, and ends the process at a second SIGTERM or SIGINT.

The first two are rows of the table (`Checks`), so a slow broker does not delay the containers.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType, TracebackType
from typing import Any, final

from samzapy.admin.positions import CHECKPOINT_CLOCK
from samzapy.admin.running import may_answer
from samzapy.api.checkpoint import JobRecord, JobRun
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.supervision import outage
from samzapy.container.supervision.job_records import HandoverRequest, JobRecords, Ownership
from samzapy.container.supervision.log_lines import record_of
from samzapy.coordinator.coordinator import Coordinator, Oversight
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import HandoverFailed, JobFailed, JobTakenOver, SamzapyError
from samzapy.failpoints import reach
from samzapy.job.facts import Facts, UserFailure
from samzapy.runner.base import PreparedJob
from samzapy.runner.changelogs import watch_changelogs
from samzapy.runner.checks import Checks, Row
from samzapy.runner.input_streams import InputStreamsWatch


def _nothing() -> None:
    """The default of calls."""


def _never() -> bool:
    """The default of questions."""
    return False


logger = logging.getLogger(__name__)

#: Most seconds between two looks at the owner, and seconds during a handover; most looks at that pace if no handover follows.
_OWNER_PACE_S, _HANDOVER_PACE_S, _MOST_HURRIED = 1.0, 0.1, 600
#: Seconds that a run, once it has let go of its job, waits for the new run to take it over.
_CLAIMED_S = 20.0
#: Phases of a container that has polled its inputs.
_POLLING = frozenset({"running", "done"})
#: Seconds between two checks of the clock.
_CLOCK_PACE_S = 1.0


def log_failure(container_id: str, failure: UserFailure) -> None:
    """Log a failure of the user's code that ended an attempt."""
    logger.error("container %s: %s failed\n%s", container_id, failure.where, failure.traceback)


def coordinator_of(
    prepared: PreparedJob,
    spec: JobSpec,
    clock: Clock = SYSTEM_CLOCK,
    on_failure: Callable[[str, UserFailure], None] = log_failure,
) -> Coordinator:
    """The coordinator of a prepared job, for the containers of `spec`. `on_failure` gets the failures of the user's code, each of
    a kind once."""
    config = prepared.config
    return Coordinator(
        config.name,
        spec,
        config.spark.lease_ms / 1000,
        clock,
        downgrades=prepared.guarantee_warnings,
        clocks=prepared.clocks,
        epoch=prepared.epoch,
        oversight=Oversight(
            config.clock.stall_ms / 1000,
            config.task.same_failures,
            config.supervision.lag_ms / 1000,
            on_facts=log_lines,
            on_failure=on_failure,
        ),
    )


def log_lines(container_id: str, facts: Facts) -> None:
    """Log the lines that a container sent, as if they had been logged here. An outage is the same one for all containers."""
    for line in facts.lines:
        if line.logger == outage.__name__:
            outage.OUTAGES.repeat(f"container {container_id}", line.text)
            continue
        target = logging.getLogger(line.logger)
        if target.isEnabledFor(line.level):
            target.handle(record_of(line, container_id))
    if facts.lines_left_out:
        logger.info("container %s: %d log lines are in its own file only", container_id, facts.lines_left_out)


@contextmanager
def watching(
    prepared: PreparedJob,
    coordinator: Coordinator,
    on_event: Callable[[str], None] = lambda _: None,
    again: Callable[[], bool] = _never,
    asked: Callable[[], bool] = _never,
) -> Iterator[OwnershipWatch]:
    """Run the checks of a job as long as the context lasts: its owner, its clock, its input streams and its changelogs. `on_event`
    gets lines about handovers, input streams and changelogs; `again` says at the end whether the process is to start the job again, `asked`
    whether the run was asked to stop."""

    def drained() -> bool:
        return coordinator.draining and not (asked() or coordinator.stopping or coordinator.abandoned is not None)

    config = prepared.config
    checks = Checks(JobRecords.of(config, "checks"))
    with (
        InputStreamsWatch(prepared, coordinator, on_event, checks),
        OwnershipWatch(
            Ownership(config.name, checks.records, prepared.run_id),
            coordinator,
            min(config.spark.lease_ms / 3000, _OWNER_PACE_S),
            checks,
            notes_end=True,
            on_event=on_event,
            again=again,
            drained=drained,
        ) as watch,
    ):
        ClockKeeper(checks, coordinator)
        if prepared.safe:
            checks.add(Row("polled", _HANDOVER_PACE_S, watch.note_polled))
        watch_changelogs(config, prepared.model, coordinator, checks, on_event)
        yield watch


@final
class OwnershipWatch:
    """A context that checks the job's owner, and requests to drain or to hand the job over. At its end it ends all `checks`.

    1. A newer run owns the job: the coordinator abandons the run. With transactions a container that is fenced finds out
       earlier; without them, and for a container that has nothing to do, there is only this look.
    2. The run was asked to drain: the coordinator has the containers drain.
    3. A new run asks for the job: this run is the previous one in `samzapy.runner.handover`. If the context is left without an
       exception, every container has ended.
    """

    def __init__(
        self,
        ownership: Ownership,
        coordinator: Coordinator,
        pace_s: float,
        checks: Checks,
        *,
        notes_end: bool = False,
        on_event: Callable[[str], None] = lambda _: None,
        again: Callable[[], bool] = _never,
        drained: Callable[[], bool] = _never,
    ) -> None:
        """`ownership` has the records of `checks`. `pace_s`: seconds between two checks, at most a third of a lease. `notes_end`: record that the run has ended well, so
        that the next run need not wait. `again` says at the end whether the process is to start the job again, `drained` whether the
        tasks have drained. Without a record of its owner a job is not watched."""
        self._ownership = ownership
        self._coordinator = coordinator
        self._notes_end = notes_end
        self._on_event = on_event
        self._pace_s = pace_s
        self._is_to_start_again = again
        self._has_drained = drained
        self._starts_again = False
        self._request: HandoverRequest | None = None
        self._hurried = 0
        self.checks = checks
        self._row = Row("ownership", pace_s, self._owned)

    @property
    def lets_go(self) -> bool:
        """Whether the run was asked to let go of the job, and so of everything that only one run can have."""
        return self._request is not None and self._request.go

    @property
    def starts_again(self) -> bool:
        """Whether the process is to start the job again, as noted with the end of this run. Valid after the context."""
        return self._starts_again

    def __enter__(self) -> OwnershipWatch:
        if self._ownership.known:
            self.checks.add(self._row)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        ended = self.checks.end()
        if kind is not None:
            if self._ownership.known and self._notes_end and ended and isinstance(error, SamzapyError):
                _note_failure(self._ownership)
            return
        asked = self._request if self.lets_go else None
        self._starts_again = asked is None and self._is_to_start_again()
        if self._ownership.known and self._notes_end and ended:
            with closing(self._ownership):
                if asked is None:
                    drained = not self._starts_again and self._has_drained()
                    _note_end(self._ownership, again=self._starts_again, drained=drained)
                else:
                    _let_go(self._ownership, asked)

    def note_polled(self) -> bool:
        """Step 10 of a handover, once every container polls its inputs; returns whether that is still to come."""
        if any(container.phase not in _POLLING for container in self._coordinator.status().containers):
            return True
        self._ownership.note_polled()
        return False

    def _owned(self) -> bool:
        try:
            with self._ownership.one_look():
                self._ownership.look()
                drain, request = self._ownership.asked_to_drain(), self._ownership.asked_to_hand_over()
            if drain:
                self._coordinator.drain()
            self._follow(request)
        except JobTakenOver as taken:
            self._coordinator.abandon(str(taken))
            return False
        return True

    def _follow(self, request: HandoverRequest | None) -> None:
        """Steps 2 and 5 of a handover."""
        before = self._request
        if request is not None and request != before:
            if before is None or before.by != request.by:
                self._ownership.answer(request)
                reach("handover.2")
            if request.go and not (before and before.go):
                self._on_event(
                    f"{_taken_over(self._ownership.job_name, request)}: every task commits, and this run ends"
                )
                self._coordinator.stop()
            self._request, self._hurried = request, _MOST_HURRIED
        self._hurried = max(0, self._hurried - 1)
        self._coordinator.hurry(hurried=self._hurried > 0)
        self._row.pace_s = min(self._pace_s, _HANDOVER_PACE_S) if self._hurried else self._pace_s


def handed_over(config: JobConfig, run_id: str | None, on_event: Callable[[str], None]) -> bool:
    """Whether a new run has asked for the job before this one could note that it starts again. Then it lets go instead, and waits for
    the claim. `on_event` gets a line about it.

    Raises JobTakenOver if the job has another owner already, JobFailed if the new run does not claim it.
    """
    with closing(Ownership.of(config, run_id)) as ownership:
        if not ownership.known:
            return False
        try:
            ownership.look()
            asked = ownership.asked_to_hand_over()
        except JobTakenOver:
            raise
        except SamzapyError as cause:
            logger.warning("Cannot tell whether a new run asks for the job: %s", cause)
            return False
        if asked is None or not asked.go:
            return False
        on_event(f"{_taken_over(config.name, asked)}: this run ends")
        _let_go(ownership, asked)
        return True


def _let_go(ownership: Ownership, asked: HandoverRequest) -> None:
    """Steps 5 and 6 of a handover, once every container has ended. Raises JobFailed if step 7 does not come."""
    reach("handover.5")
    _note_end(ownership, again=False)
    reach("handover.6")
    pause, until = threading.Event(), SYSTEM_CLOCK.monotonic() + _CLAIMED_S
    while SYSTEM_CLOCK.monotonic() < until:
        try:
            ownership.look()
        except JobTakenOver:
            if asked.safe:
                _await_poll(ownership, asked.by, pause)
            return
        except SamzapyError as cause:
            logger.warning("Cannot tell whether the new run has taken over (%s); asking again", cause)
            ownership.close()
        pause.wait(_HANDOVER_PACE_S)
    raise JobFailed(f"{_taken_over(ownership.job_name, asked)} up to its last step and is gone: start the job again")


def _await_poll(ownership: Ownership, by: JobRun, pause: threading.Event) -> None:
    """Step 11 of a handover. Raises HandoverFailed if the new run ends first."""
    polled: bool | None = None
    while polled is None:
        pause.wait(_HANDOVER_PACE_S)
        try:
            polled = ownership.has_polled(by)
        except SamzapyError as cause:
            logger.warning("Cannot tell whether the new run polls its inputs (%s); asking again", cause)
            ownership.close()
        if polled is None and not may_answer(by):
            polled = False
    if not polled:
        raise HandoverFailed(
            f"the new run of job '{ownership.job_name}' has failed before it read its inputs, so the job has to start again"
        )


def _note_end(ownership: Ownership, *, again: bool, drained: bool = False) -> None:
    try:
        ownership.note_end(again=again, drained=drained)
    except SamzapyError as cause:
        logger.warning("Cannot record the end of this run, so the next run may have to wait: %s", cause)


def _note_failure(ownership: Ownership) -> None:
    with closing(ownership):
        try:
            ownership.note_failure()
        except SamzapyError as cause:
            # The caller gets the failure anyway. Only a command that waits for a drain reads the note.
            logger.debug("The failure of this run is not recorded: %s", cause)


def _taken_over(job_name: str, request: HandoverRequest) -> str:
    by = request.by
    return str(JobTakenOver.by(job_name, by.started_ms, by.host, by.pid))


@final
class ClockKeeper:
    """Writes the coordinator's checkpoint clock to the broker after each change, and at the end of the checks.

    After the loss of its driver, a job starts again at that clock. Tasks get a clock only after it is written, so no later
    start needs the states that they then remove. For a job without tasks that keep a state of their own, nothing is
    written. Gearpump calls this `SnapshotStartClock`.
    """

    def __init__(self, checks: Checks, coordinator: Coordinator) -> None:
        """Adds itself to `checks`."""
        self._records = checks.records
        self._coordinator = coordinator
        checks.add(Row("clock", _CLOCK_PACE_S, self._keep, last=self._keep))

    def _keep(self) -> bool:
        clock, kept = self._coordinator.checkpoint_clocks
        if clock is None or clock == kept or self._coordinator.abandoned is not None:
            return True
        self._records.checkpoints.write_record(JobRecord.CLOCK, {CHECKPOINT_CLOCK: clock})
        self._coordinator.keep_checkpoint_clock(clock)
        return True


#: The event after the first signal.
STOPPING = "stopping: every task commits first; a second signal ends the job at once"

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@final
class StopSignals:
    """A context in which the first signal calls `stop`; any further one calls `abort` and ends the process with 128 +
    its number.

    SIGHUP says that the terminal is gone: shell and kernel both send it, so it stops the job and never ends the process. Under
    `nohup` it is ignored.

    A runner enters it before it claims the job, and says with `calls` how the job is stopped once it can be. A signal in
    between is kept until then: a run that has claimed its job stops in order, and gives the job back.

    Outside the main thread it does nothing: then the surrounding program handles signals. A handler that was not
    installed from Python, as in a server that embeds Python, stays in place: Python could not restore it.

    A forked child, as of a `multiprocessing.Pool` in a task, handles signals as if there were no context.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._stop: Callable[[], None] = _nothing
        self._abort: Callable[[], None] = _nothing
        self._previous: dict[signal.Signals, Any] = {}
        self.received = False

    def calls(self, stop: Callable[[], None], abort: Callable[[], None] = _nothing) -> None:
        """Call these from now on; `stop`, which may be called twice, at once if a signal has come already."""
        self._stop, self._abort = stop, abort
        if self.received:
            stop()

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            known = {number: signal.getsignal(number) for number in SIGNALS}
            if known[signal.SIGHUP] is signal.SIG_IGN:
                del known[signal.SIGHUP]
            heard = [number for number, handler in known.items() if handler is not None]
            self._previous = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self.__exit__(None, None, None)
            os.kill(os.getpid(), number)
            return
        if not self.received:
            self.received = True
            self._stop()
            return
        if number == signal.SIGHUP:
            return
        try:
            self._abort()
        finally:
            os._exit(128 + number)
