"""Keeps the container's lease: a separate thread reports to the coordinator and takes its directives.

The run loop never waits for the coordinator; it looks at two flags and the clock between slices. Without an answer for
the length of the lease the container must stop without a commit, because another attempt may have been started by then.

A process may be stopped (SIGSTOP) and continue after its lease has expired:

1. The clock shows that before the next slice and before any checkpoint. The container then asks the coordinator, and
   writes nothing more once it knows of a successor.
2. A lease cannot do more. The producer's thread sends queued records at once when the process continues, unless the
   loss of the lease is known first; then the queue is purged.
3. The successor has fenced the container's transactional producer. So the broker refuses state and checkpoints in every
   guarantee, and outputs in exactly-once. The other guarantees may repeat one batch of outputs (effectively-once under
   the same ids). Without transactions changelog records may be repeated, too.

A child that the user's code forks has copies of the container and of its lease. If it leaves that code, it ends: it
must not commit, restart the container or close anything.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from samzapy.clock import Clock
from samzapy.errors import RetriableError, SamzapyError, TaskMigrated
from samzapy.job.lease import ContainerLease, ContainerReport, Directive

logger = logging.getLogger(__name__)


def keep_running(why: str) -> None:
    """The default of `on_lost`: wait until the run loop asks."""


class Heartbeat:
    """Reports three times a lease, and as often as the lease's pace says. The run loop asks `should_stop`.

    A failed report does not end the thread: a report that cannot be made is replaced by the last good one with
    the current phase; a refused one counts as unanswered.
    """

    def __init__(
        self,
        lease: ContainerLease,
        report: Callable[[str], ContainerReport],
        clock: Clock,
        on_lost: Callable[[str], None] = keep_running,
        purge: Callable[[], None] = lambda: None,
    ) -> None:
        """`report` builds a report of the given phase. `on_lost` is called when the run loop has ignored a lost lease
        for another lease duration. `purge` throws away unsent records; it is called as soon as the loss is known. The
        heartbeat's thread makes these calls."""
        self._pid = os.getpid()
        self._purge = purge
        self._on_lost = on_lost
        self._lost_at = 0.0
        self._lease = lease
        self._build = report
        self._clock = clock
        self._phase = "starting"
        self._stop_requested = False
        self._drain_requested = False
        #: The reason why the container is no longer ours; None while it is.
        self.lost: str | None = None
        self._answered_at = clock.monotonic()
        self._newest: ContainerReport | None = None
        self._failing = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="samzapy-heartbeat", daemon=True)

    def start(self) -> None:
        """Report once, now, and then from the thread."""
        self._send()
        self._thread.start()

    def phase(self, phase: str) -> None:
        """Enter a phase; the next report says so."""
        self._phase = phase

    def request_stop(self) -> None:
        """Make `should_stop` true; callable from signal handlers and other threads."""
        self._stop_requested = True

    def should_stop(self) -> bool:
        """Whether to commit and stop. Raises TaskMigrated when the container must stop without a commit."""
        self._end_child()
        if self.lost is None and self._silent_s() > self._lease.duration_s:
            # No report for that long (a stop, a loaded machine): another attempt may own the tasks, so ask first.
            self._send()
            if self.lost is None and self._silent_s() > self._lease.duration_s:
                self._lose("the lease has run out before an answer to its renewal")
        if self.lost is not None:
            raise TaskMigrated(self.lost)
        return self._stop_requested

    @contextmanager
    def ending_children(self) -> Iterator[None]:
        """A context that a forked child of this process does not leave by an error."""
        try:
            yield
        except BaseException as failure:
            self._end_child(f" ({failure})")
            raise

    def should_drain(self) -> bool:
        """Whether to process the inputs to their present ends, and stop."""
        return self._drain_requested

    def confirm(self) -> None:
        """Ask now, and wait for the answer. Raises TaskMigrated without an answer, or if another attempt owns the
        container."""
        self._end_child()
        asked = self._clock.monotonic()
        self._send()
        if self._answered_at < asked and self.lost is None:
            self._lose("the coordinator does not say which attempt owns this container")
        self.should_stop()

    def finish(self, phase: str) -> ContainerReport:
        """Stop the thread and try to send a last report, of that phase; returns it."""
        self._phase = phase
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        report = self._build(phase)
        try:
            self._lease.report(report)
        except SamzapyError as cause:
            logger.warning("The last report did not reach the coordinator: %s", cause)
        return report

    def _beat(self) -> None:
        while not self._closed.wait(min(self._lease.duration_s / 3, self._lease.pace_s)):
            if self.lost is None:
                self._send()
            elif self._clock.monotonic() - self._lost_at > self._lease.duration_s:
                self._on_lost(self.lost)

    def _end_child(self, why: str = "") -> None:
        """End this process if it is a child that the user's code has forked, without a flush of its parent's
        buffers."""
        if os.getpid() != self._pid:
            logger.error(
                "a child that the task's code has forked ends here, because only its parent runs the container%s; "
                "end it by os._exit, or use multiprocessing",
                why,
            )
            os._exit(1)

    def _silent_s(self) -> float:
        return self._clock.monotonic() - self._answered_at

    def _lose(self, why: str) -> None:
        self._lost_at = self._clock.monotonic()
        self.lost = why
        self._purge()

    def _current(self) -> ContainerReport:
        """Make the current report. Raises the error of making the first one."""
        try:
            self._newest = self._build(self._phase)
        except Exception as cause:
            if self._newest is None:
                raise
            logger.warning("The last report is sent again, as a new one cannot be made: %s", cause, exc_info=True)
            self._newest = replace(self._newest, phase=self._phase)
        return self._newest

    def _send(self) -> None:
        asked = self._clock.monotonic()
        try:
            directive = self._lease.report(self._current())
        except Exception as cause:  # noqa: BLE001  # whatever it is, the lease runs out or the next report is answered
            if not isinstance(cause, RetriableError) and not self._failing:
                logger.warning("A report to the coordinator failed: %s: %s", type(cause).__name__, cause)
                self._failing = True
            silent = self._silent_s()
            if silent > self._lease.duration_s:
                self._lose(f"the coordinator has not answered for {silent:.0f} s ({cause}): the lease has run out")
            return
        self._failing = False
        # A lease begins with the request: this process may have been stopped before it read the answer.
        self._answered_at = max(asked, self._answered_at)
        if directive is Directive.STOP:
            self._stop_requested = True
        elif directive is Directive.DRAIN:
            self._drain_requested = True
        elif directive is Directive.ABANDON:
            self._lose("a newer attempt runs this container")
