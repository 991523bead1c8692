"""Hands a running job over to a new run, with a break in processing of hardly a second: both sides.

Both write records next to the job's checkpoints:

    the new run (`Handover`)                        the previous run (`OwnershipWatch`)
1   asks it to get ready                 begin
                                                    2  answers; from now on it checks, and its containers report, often
3   gets everything ready that needs no ownership
4   asks it to let go                    complete
                                                    5  every container commits, and closes its local stores
                                                    6  notes that it has ended, and waits for 7         _let_go
7   takes the job over: owner record, fences, epochs (`samzapy.admin.take_over`)
8   starts the containers, which open the local stores and go on
                                                    9  finds the new owner, and ends
10  with `safe`: notes that its
    containers poll                     note_polled
                                                    11 with `safe`: waits for 10 before it ends         _is_back

Ownership changes at step 7, with every fence, whether or not the earlier steps succeeded:

1. A previous run that does not answer, or does not end in time, is fenced there. Its work since the last commit is
   repeated.
2. If the new run dies between 1 and 4, the previous run just goes on.
3. If the new run dies between 4 and 7, the job has no run. The previous run then ends with a failure, so that its
   supervisor starts it again.
4. A second new run overwrites the request of the first. The previous run follows the newest request; of the two new
   runs, the one that takes over last owns the job.
5. With `safe`, a new run that fails before 10 gives the job back: the process of the previous run starts it again.
6. A run that ends to start again for changed inputs has let go: its process then finds the new owner, and ends. If it
   owns the job again before step 7, it is fenced.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from types import TracebackType
from typing import final

from samzapy.admin.running import has_ended, may_answer
from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.checkpoint.managers import wait_at_most
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import HandoverRequest, JobRecords, Ownership
from samzapy.coordinator.coordinator import Coordinator
from samzapy.errors import JobFailed, JobTakenOver, SamzapyError
from samzapy.failpoints import reach
from samzapy.runner.base import RunOptions
from samzapy.runner.checks import Checks, Row
from samzapy.runner.stopping import StopSwitch

logger = logging.getLogger(__name__)

#: Seconds in which the previous run, which checks every second, has to answer. The new run gets ready meanwhile.
ANSWER_S = 3.0
#: Seconds between two checks for an answer.
_ANSWER_PACE_S = 0.03
#: Most seconds between two checks of the owner, and seconds during a handover; most checks at that pace if no handover
#: follows.
_OWNER_PACE_S, _HANDOVER_PACE_S, _MOST_HURRIED = 1.0, 0.1, 600
#: Seconds that a run, once it has let go of its job, waits for the new run to take it over.
_CLAIMED_S = 20.0


@final
class Handover:
    """The new run's side: asks a run that may be active. One thread at a time."""

    def __init__(
        self,
        config: JobConfig,
        before: JobRun,
        request: HandoverRequest,
        clock: Clock = SYSTEM_CLOCK,
        *,
        wait: Callable[[float], object] | None = None,
        goes_on: Callable[[JobRun], bool] = may_answer,
    ) -> None:
        """`request`: step 1. `goes_on` returns whether a run may be active, as far as this machine can see."""
        # Separate clients, because a manager that has written reads from the beginning again.
        self._asked = JobRecords.of(config, "handover")
        self._answers = JobRecords.of(config, "handover")
        self._before = before
        self._request = request
        self._patience_s = config.handover_ms / 1000
        self._clock = clock
        self._wait = wait or threading.Event().wait
        self._goes_on = goes_on
        self._asked_at = clock.monotonic()

    def begin(self) -> None:
        """Step 1."""
        try:
            self._ask(go=False)
            # The first read takes longest, so it is made now and not when every moment counts.
            self._has_answered()
        except SamzapyError as cause:
            logger.warning("Cannot ask the previous run to get ready; it will be fenced: %s", cause)
        reach("handover.1")

    def complete(self) -> bool:
        """Step 4. Waits until the previous run has ended or its time is over, and returns whether it has ended. Raises
        nothing, because the job is taken over in any case."""
        try:
            if not self._until(ANSWER_S, self._has_answered):
                logger.warning("The previous run does not answer, so it is fenced")
                return False
            reach("handover.3")
            self._ask(go=True)
            reach("handover.4")
            if self._until(self._patience_s, self._has_ended):
                return True
            logger.warning(
                "The previous run has not let go within %g s (job.handover.ms), so it is fenced", self._patience_s
            )
        except SamzapyError as cause:
            logger.warning("Cannot ask the previous run to let go, so it is fenced: %s", cause)
        return False

    def close(self) -> None:
        self._asked.close()
        self._answers.close()

    def _ask(self, *, go: bool) -> None:
        request = replace(self._request, run=self._before.id, go=go)
        self._asked.checkpoints.write_record(JobRecord.HANDOVER, request.to_json())
        self._asked_at = self._clock.monotonic()

    def _until(self, patience_s: float, check: Callable[[], bool]) -> bool:
        """Wait for `check`, at most `patience_s` after the newest request; returns its result."""
        while not check():
            if self._clock.monotonic() >= self._asked_at + patience_s or not self._goes_on(self._before):
                return check()
            self._wait(_ANSWER_PACE_S)
        return True

    def _has_answered(self) -> bool:
        checkpoints = self._records()
        answer = checkpoints.read_record(JobRecord.RECEIVED).newest or {}
        answered = (answer.get("run"), answer.get("by")) == (self._before.id, self._request.by.id)
        return answered or has_ended(checkpoints, self._before)

    def _has_ended(self) -> bool:
        return has_ended(self._records(), self._before)

    def _records(self) -> CheckpointManager:
        checkpoints = self._answers.checkpoints
        # A dead container may have left a transaction open. Only the fence ends it, so the fence must not wait for it.
        wait_at_most(checkpoints, ANSWER_S)
        return checkpoints


@final
class OwnershipWatch:
    """A context that checks the job's owner, and requests to drain or to hand the job over. At its end it ends all
    `checks`.

    1. A newer run owns the job: the coordinator abandons the run. With transactions a container that is fenced finds
       out earlier; without them, and for a container that has nothing to do, there is only this check.
    2. The run was asked to drain: the coordinator has the containers drain.
    3. A new run asks for the job: this run is the previous one. If the context is left without an exception, every
       container has ended.
    """

    def __init__(
        self,
        ownership: Ownership,
        coordinator: Coordinator,
        checks: Checks,
        options: RunOptions,
        have_inputs_changed: Callable[[], bool] = lambda: False,
    ) -> None:
        """`ownership` has the records of `checks`. Without a record of its owner a job is not watched."""
        self._ownership = ownership
        self._coordinator = coordinator
        self._options = options
        self._have_inputs_changed = have_inputs_changed
        self._request: HandoverRequest | None = None
        self._hurried = 0
        self._pace_s = min(coordinator.lease_s / 3, _OWNER_PACE_S)
        self._row = Row("ownership", self._pace_s, self._owned)
        self.checks = checks
        #: As of `JobOutcome`, as noted with the end of this run. Valid after the context.
        self.restart: str | None = None

    @property
    def may_restart(self) -> bool:
        """Whether the job is to start again for changed inputs, as far as is known before the end."""
        return self._have_inputs_changed() and not (self._options.stop.asked or self._coordinator.draining)

    @property
    def lets_go(self) -> bool:
        """Whether the run was asked to let go of the job, and so of everything that only one run can have."""
        return self._request is not None and self._request.go

    def __enter__(self) -> OwnershipWatch:
        if self._ownership.known:
            self.checks.add(self._row)
            if self._options.safe:
                self.checks.add(Row("polled", _HANDOVER_PACE_S, self._note_polled))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        notes = self.checks.end() and self._ownership.known
        if kind is not None:
            if notes and isinstance(error, SamzapyError):
                _note_failure(self._ownership)
            return
        asked = self._request if self.lets_go else None
        again, coordinator = asked is None and self.may_restart, self._coordinator
        self.restart = (self._ownership.run_id or "") if again else None
        if notes:
            with closing(self._ownership):
                if asked is None:
                    has_ended = self._options.stop.asked or coordinator.stopping or coordinator.abandoned is not None
                    _note_end(self._ownership, again=again, drained=coordinator.draining and not has_ended)
                    if again:
                        reach("inputs.3")
                else:
                    _let_go(self._ownership, asked)
                    if asked.safe:
                        self._options.on_event(
                            "this process waits until the new run reads its inputs, in case it fails"
                        )
                    if asked.safe and _is_back(self._ownership, asked.by, self._options.stop):
                        self._options.on_event("the new run has failed before its first poll: the job starts again")
                        self.restart = asked.by.id

    def _note_polled(self) -> bool:
        """Step 10; returns whether it is still to come."""
        polled = all(self._coordinator.has_run(item.id) for item in self._coordinator.spec.model.containers)
        if polled:
            self._ownership.note_polled()
        return not polled

    def _owned(self) -> bool:
        try:
            with self._ownership.one_request():
                self._ownership.poll()
                drain, request = self._ownership.asked_to_drain(), self._ownership.asked_to_hand_over()
            if drain:
                self._coordinator.drain()
            self._handle_request(request)
        except JobTakenOver as taken:
            self._coordinator.abandon(str(taken))
            return False
        return True

    def _handle_request(self, request: HandoverRequest | None) -> None:
        """Steps 2 and 5."""
        before = self._request
        if request is not None and request != before:
            if before is None or before.by != request.by:
                self._ownership.answer(request)
                reach("handover.2")
            if request.go and not (before and before.go):
                self._options.on_event(
                    f"{_taken_over(self._ownership.job_name, request)}: every task commits, and this run ends"
                )
                self._coordinator.stop()
            self._request, self._hurried = request, _MOST_HURRIED
        self._hurried = max(0, self._hurried - 1)
        self._coordinator.hurried = self._hurried > 0
        self._row.pace_s = min(self._pace_s, _HANDOVER_PACE_S) if self._hurried else self._pace_s


def _let_go(ownership: Ownership, asked: HandoverRequest) -> None:
    """Steps 5 and 6, once every container has ended. Raises JobFailed if step 7 does not come."""
    reach("handover.5")
    _note_end(ownership, again=False)
    reach("handover.6")
    pause, until = threading.Event(), SYSTEM_CLOCK.monotonic() + _CLAIMED_S
    while SYSTEM_CLOCK.monotonic() < until:
        try:
            ownership.poll()
        except JobTakenOver:
            return
        except SamzapyError as cause:
            logger.warning("Cannot tell whether the new run has taken over (%s); asking again", cause)
            ownership.close()
        pause.wait(_HANDOVER_PACE_S)
    raise JobFailed(f"{_taken_over(ownership.job_name, asked)} up to its last step and is gone: start the job again")


def _is_back(ownership: Ownership, by: JobRun, stop: StopSwitch) -> bool:
    """Step 11: wait until the new run polls, has ended, or this one is stopped; returns whether the new one failed."""
    pause = threading.Event()
    while not stop.asked:
        try:
            # In this order: a run that polls, and ends then, has not failed.
            active, polled = may_answer(by), ownership.has_polled(by)
            if polled is not None or not active:
                return not polled
        except SamzapyError as cause:
            logger.warning("Cannot tell whether the new run polls its inputs (%s); asking again", cause)
            ownership.close()
        pause.wait(_HANDOVER_PACE_S)
    return False


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
