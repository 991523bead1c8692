"""Hands a running job over to a new run, with a break in processing of hardly a second.

Both sides write records beside the job's checkpoints:

    the new run                                     the previous run
1   asks it to get ready
                                                    2  answers; from now on it looks, and its containers report, often
3   gets everything ready that needs no ownership
4   asks it to let go
                                                    5  every container commits, and closes its local stores
                                                    6  notes that it has ended, and waits for 7
7   takes the job over: owner record, fences, epochs (`samzapy.admin.take_over`)
8   starts the containers, which open the local stores and go on
                                                    9  finds the new owner, and ends
10  with `safe`: records that every container polls
                                                    11 with `safe`: waits for 10 before it ends

Ownership changes at step 7, with every fence, whether or not the earlier steps succeeded:

1. A previous run that does not answer, or does not end in time, is fenced there. Its work since the last commit is repeated.
2. If the new run dies between 1 and 4, the previous run just goes on.
3. If the new run dies between 4 and 7, the job has no run. The previous run then ends with a failure, so that its supervisor
   starts it again.
4. A second new run overwrites the request of the first. The previous run follows the newest request; of the two new runs, the
   one that takes over last owns the job.
5. With `safe`, a new run that fails before 10 gives the job back: the previous run starts again, with the code that it had.
   The job has no run in between, since both versions cannot have the local stores and the transactions at the same time.
6. A run that starts again in its process, for new inputs, notes that as its end, and then looks for a request once more. Either it
   finds step 4, and does 5 and 6; or the new run finds the note, waits until the process owns the job again, and asks it again.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import final

from samzapy.admin.running import has_ended, has_let_go
from samzapy.api.checkpoint import CheckpointManager, JobRecord, JobRun
from samzapy.checkpoint.records import read_owner
from samzapy.checkpoint.topic import wait_at_most
from samzapy.clock import Clock
from samzapy.container.supervision.job_records import HandoverRequest, JobRecords
from samzapy.errors import SamzapyError
from samzapy.failpoints import reach

logger = logging.getLogger(__name__)

#: Seconds in which the previous run, which looks every second, has to answer. The new run gets ready meanwhile.
ANSWER_S = 3.0
#: Seconds between two looks at an answer.
_PACE_S = 0.03


class Handover(ABC):
    """The new run's side of a handover."""

    @abstractmethod
    def begin(self) -> None:
        """Step 1."""

    @abstractmethod
    def complete(self) -> bool:
        """Step 4. Waits until the previous run has ended or its time is over, and returns whether it has ended. Raises
        nothing, because the job is taken over in any case."""

    @abstractmethod
    def close(self) -> None:
        """Close the clients."""


@final
class NoHandover(Handover):
    """A handover without a previous run."""

    def begin(self) -> None:
        """Do nothing: there is no run to ask."""

    def complete(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing to close."""


@final
class AskedHandover(Handover):
    """Asks a run that may be active. One thread at a time."""

    def __init__(
        self,
        asked: JobRecords,
        answers: JobRecords,
        before: JobRun,
        request: HandoverRequest,
        patience_s: float,
        clock: Clock,
        *,
        wait: Callable[[float], object],
        goes_on: Callable[[JobRun], bool],
    ) -> None:
        """`asked` and `answers` are the same records by separate clients, because a manager that has written reads from the
        beginning again; the handover closes both. `request`: step 1. `patience_s`: seconds for steps 5 and 6. `goes_on`
        returns whether a run may be active, as far as this machine can see."""
        self._asked = asked
        self._answers = answers
        self._before = before
        self._request = request
        self._patience_s = patience_s
        self._clock = clock
        self._wait = wait
        self._goes_on = goes_on
        self._asked_at = clock.monotonic()

    def begin(self) -> None:
        try:
            self._ask(go=False)
            # The first read takes longest, so it is made now and not when every moment counts.
            self._has_heard()
        except SamzapyError as cause:
            logger.warning("Cannot ask the previous run to get ready; it will be fenced: %s", cause)
        reach("handover.1")

    def complete(self) -> bool:
        try:
            if not self._until(ANSWER_S, self._has_heard):
                logger.warning("The previous run does not answer, so it is fenced")
                return False
            reach("handover.3")
            self._ask(go=True)
            reach("handover.4")
            if self._until(self._patience_s, self._has_let_go):
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

    def _until(self, patience_s: float, look: Callable[[], bool]) -> bool:
        """Wait for `look`, at most `patience_s` after the newest request; returns its result."""
        while not look():
            if self._clock.monotonic() >= self._asked_at + patience_s or not self._goes_on(self._before):
                return look()
            self._wait(_PACE_S)
        return True

    @contextmanager
    def _looking(self, *, go: bool) -> Iterator[CheckpointManager]:
        """The current records. A previous run that has started again is asked under its new id."""
        checkpoints = self._answers.checkpoints
        # A dead container may have left a transaction open. Only the fence ends it, so the fence must not wait for it.
        wait_at_most(checkpoints, ANSWER_S)
        with checkpoints.one_pass():
            owner, before = read_owner(checkpoints), self._before
            if owner is not None and owner.id != before.id and (owner.host, owner.pid) == (before.host, before.pid):
                self._before = owner
                self._ask(go=go)
            yield checkpoints

    def _has_heard(self) -> bool:
        with self._looking(go=False) as checkpoints:
            heard = checkpoints.read_record(JobRecord.HEARD).newest or {}
            answered = (heard.get("run"), heard.get("by")) == (self._before.id, self._request.by.id)
            # A run that has ended to start again does not look in between.
            return answered or has_ended(checkpoints, self._before)

    def _has_let_go(self) -> bool:
        with self._looking(go=True) as checkpoints:
            return has_let_go(checkpoints, self._before)
