"""Starting a container again where it is, when all that failed was a call whose repetition may succeed.

After an aborted transaction, or one whose outcome nobody knows, everything since the last commit is void: inputs,
caches, uncommitted bytes, and whatever the task's object remembers. So nothing is rewound piece by piece: the container
is closed and started again, in the one order that is the guarantee. That takes about a second and no retry of Spark's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from samzapy.api.lease import ContainerLease, ContainerReport, Directive
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.tasks.error_policy import ErrorPolicy
from samzapy.container.heartbeat import Heartbeat
from samzapy.container.lifecycle import Container
from samzapy.container.ownership import Ownership
from samzapy.errors import (
    JobTakenOver,
    ProducerError,
    ProducerFenced,
    RecordTooLarge,
    RetriableError,
    SamzapyError,
    StaleEpoch,
    TaskMigrated,
    TransactionAborted,
    TransactionIndeterminate,
)

logger = logging.getLogger(__name__)

#: A broker that times a transaction out fences its producer, so a fenced producer may still be the rightful one.
RESTARTABLE = (TransactionAborted, TransactionIndeterminate, ProducerFenced, RetriableError)

#: The seconds before each start in a row.
_PAUSES_S = (0.4, 0.8, 1.6, 3.2, 6.4)


class Attempts:
    """Runs containers built by `build` until one ends as it should; `run` and `stop` are a container's own."""

    def __init__(
        self,
        build: Callable[[], Container],
        lease: ContainerLease,
        ownership: Ownership,
        produce: ErrorPolicy | None = None,
        reporting: AbstractContextManager[object] | None = None,
        transaction_timeout_ms: int = 60_000,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`produce`: how often a send that failed is made again, which is the work since the last commit all over;
        `reporting`: entered while containers run, whichever of them. `transaction_timeout_ms` is for the warning to
        somebody whose transactions last longer."""
        self._reporting = reporting or nullcontext()
        self._build = build
        self._ownership = ownership
        self._clock = clock
        self._transaction_timeout_ms = transaction_timeout_ms
        self._lease = lease
        self._asked_for = tuple(produce.pauses_s()) if produce else ()
        self._current: Container | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ask for a commit and a graceful stop; may be called from a signal handler or another thread."""
        self._stopped.set()
        current = self._current
        if current is not None:
            current.stop()

    def run(self) -> ContainerReport:
        """Run to the end. Raises what a container raises, once starting again is no use or not this process's right."""
        with self._reporting:
            return self._run()

    def _run(self) -> ContainerReport:
        in_a_row = 0
        while True:
            container = self._current = self._build()
            if self._stopped.is_set():
                container.stop()
            try:
                return container.run()
            except (*RESTARTABLE, ProducerError) as failure:
                in_a_row = 1 if container.commits > 1 else in_a_row + 1
                pauses = self._pauses(failure)
                if in_a_row > len(pauses):
                    raise
                self._check_lease(container, failure)
                if isinstance(failure, StaleEpoch):
                    self._outgrow(failure)
                self._wait(container, failure, pauses[in_a_row - 1])

    def _pauses(self, failure: SamzapyError) -> Sequence[float]:
        """The seconds before each start in a row; none if starting again is not for this failure."""
        if isinstance(failure, RecordTooLarge):
            return ()
        if isinstance(failure, RESTARTABLE):
            return max(_PAUSES_S, self._asked_for, key=len)
        return self._asked_for

    def _wait(self, container: Container, failure: SamzapyError, seconds: float) -> None:
        # Nobody else reports between two starts, and a broker's outage outlasts a lease.
        between = Heartbeat(self._lease, container.report, self._clock)
        between.phase("restarting")
        between.start()
        try:
            self._check_ownership()
            self._explain(failure)
            self._stopped.wait(seconds)
        finally:
            between.finish("restarting")

    def _check_lease(self, container: Container, failure: SamzapyError) -> None:
        try:
            directive = self._lease.report(container.report("restarting"))
        except RetriableError as silence:
            raise TaskMigrated(f"{failure}; and the coordinator does not answer ({silence})") from failure
        if directive is Directive.ABANDON:
            raise TaskMigrated(f"a newer attempt runs this container ({failure})") from failure

    def _outgrow(self, failure: StaleEpoch) -> None:
        """Go on under a greater epoch, if the job is this run's. Where nobody can tell, the greater epoch owns it."""
        try:
            if not self._ownership.known:
                raise TaskMigrated(str(failure)) from failure
            self._ownership.look()
        finally:
            self._ownership.close()
        self._lease.outgrow(failure.newest)

    def _check_ownership(self) -> None:
        try:
            self._ownership.look()
        except JobTakenOver:
            raise
        except SamzapyError as silence:
            # Then the next start finds out, having fenced whoever owns the tasks: that one starts once more than needed.
            logger.warning("Whether another run has taken over is not known (%s)", silence)
        finally:
            self._ownership.close()

    def _explain(self, failure: SamzapyError) -> None:
        logger.warning("Starting again from the last commit after: %s", failure)
        if isinstance(failure, ProducerFenced):
            logger.warning(
                "No newer attempt has fenced it, so the broker has: a transaction was open for longer than "
                "task.transaction.timeout.ms (%d); raise it, commit more often, or do less in one process()",
                self._transaction_timeout_ms,
            )
