"""Hands a running job over to a new run of it, so that hardly a second passes in which nothing is processed.

Both sides leave records beside the job's checkpoints:

    the new run                                     the run before
1   asks it to get ready
                                                    2  answers; from now on it looks, and its containers report, often
3   gets everything ready that needs no ownership
4   asks it to let go
                                                    5  every container commits, and closes its local stores
                                                    6  notes that it has ended, and waits for 7
7   takes the job over: owner record, fences, epochs (`samzapy.admin.take_over`)
8   starts the containers, which open the local stores and go on
                                                    9  finds the new owner, and ends

Ownership changes at 7, with every fence, whatever came of the steps before:

1. A run before that does not answer, or does not end in time, is fenced there. Its work since the last commit is repeated.
2. A new run that dies between 1 and 4 costs the run before nothing.
3. A new run that dies between 4 and 7 leaves the job without a run. The run before then ends with a failure, so that whoever
   supervises it starts it again.
4. A second new run overwrites the request of the first. The run before follows the newest; of the two new runs, the one that
   takes over last owns the job.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, final

from samzapy.api.checkpoint import JobRecord, JobRun
from samzapy.clock import Clock
from samzapy.container.supervision.job_records import HandoverRequest, JobRecords
from samzapy.errors import SamzapyError
from samzapy.failpoints import reach

logger = logging.getLogger(__name__)

#: Seconds that a run has to answer: it looks every second. Most of them pass while the new run gets ready.
ANSWER_S = 3.0
#: Seconds between two looks at an answer.
_PACE_S = 0.03


class Handover(ABC):
    """The side of the new run."""

    @abstractmethod
    def begin(self) -> None:
        """Step 1."""

    @abstractmethod
    def complete(self) -> bool:
        """Step 4; returns once the run before has ended, or has had its time, and whether it has ended. Raises nothing: the
        job is taken over in any case."""

    @abstractmethod
    def close(self) -> None:
        """Close the clients."""


@final
class NoHandover(Handover):
    """There is no run that could be asked."""

    def begin(self) -> None:
        """Nothing is asked."""

    def complete(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing was opened."""


@final
class AskedHandover(Handover):
    """Asks a run that may go on. One thread at a time."""

    def __init__(
        self,
        asked: JobRecords,
        answers: JobRecords,
        before: JobRun,
        run: JobRun,
        patience_s: float,
        clock: Clock,
        wait: Callable[[float], object],
        goes_on: Callable[[JobRun], bool],
    ) -> None:
        """`asked` and `answers` are the same records by separate clients, and belong to the handover: a manager that writes
        reads from the beginning afterwards. `patience_s`: seconds for steps 5 and 6. `goes_on`: whether a run may go on, as
        far as can be seen."""
        self._asked = asked
        self._answers = answers
        self._before = before
        self._run = run
        self._patience_s = patience_s
        self._clock = clock
        self._wait = wait
        self._goes_on = goes_on
        self._began = clock.monotonic()

    def begin(self) -> None:
        try:
            self._ask(go=False)
            self._began = self._clock.monotonic()
            # Its first read takes longest, and is done by the time that every moment counts.
            self._read(JobRecord.HEARD)
        except SamzapyError as cause:
            logger.warning("The run before is not asked to let go, but fenced: %s", cause)
        reach("handover.1")

    def complete(self) -> bool:
        try:
            if not self._until(self._began + ANSWER_S, self._has_heard):
                logger.warning("The run before does not answer, so it is fenced")
                return False
            reach("handover.3")
            self._ask(go=True)
            reach("handover.4")
            if self._until(self._clock.monotonic() + self._patience_s, self._has_ended):
                return True
            logger.warning(
                "The run before has not let go within %g s (job.handover.ms), so it is fenced", self._patience_s
            )
        except SamzapyError as cause:
            logger.warning("The run before is fenced, as it cannot be asked to let go: %s", cause)
        return False

    def close(self) -> None:
        self._asked.close()
        self._answers.close()

    def _ask(self, *, go: bool) -> None:
        request = HandoverRequest(self._before.id, self._run, go)
        self._asked.checkpoints.write_record(JobRecord.HANDOVER, request.to_json())

    def _until(self, deadline: float, look: Callable[[], bool]) -> bool:
        while not look():
            if self._clock.monotonic() >= deadline or not self._goes_on(self._before):
                return look()
            self._wait(_PACE_S)
        return True

    def _read(self, record: JobRecord) -> Mapping[str, Any] | None:
        checkpoints = self._answers.checkpoints
        # A transaction that a dead container has left open ends with the fence, which must not wait for it.
        checkpoints.patience_s = ANSWER_S
        return checkpoints.read_record(record)

    def _has_heard(self) -> bool:
        heard = self._read(JobRecord.HEARD)
        return heard is not None and (heard.get("run"), heard.get("by")) == (self._before.id, self._run.id)

    def _has_ended(self) -> bool:
        ended = self._read(JobRecord.ENDED)
        return ended is not None and ended.get("run") == self._before.id
