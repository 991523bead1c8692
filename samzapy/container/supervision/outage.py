"""Waits, inside an attempt, for a system that does not answer; and what a process logs about it.

A container that has run before waits where it is, for as long as an outage lasts: it needs no other attempt or process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, final

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import SamzapyError, Unreachable

logger = logging.getLogger(__name__)

#: Seconds between two lines.
_LINE_S: Final = 60.0
#: Seconds before the first start of an outage, and at most: each start that fails without a commit doubles them.
#: Requests without an answer are spaced by the system's own gate; this is for systems that answer and cannot be written
#: to.
_FIRST_S, _LONGEST_S = 0.5, 8.0
#: A party that has not repeated for so many seconds that it has no answer is gone.
_GONE_S = 150.0
_STILL, _OVER = "No answer for ", "The outage is over, after "
#: The party that is the container of this process.
CONTAINER: Final = "container"


@final
class Outages:
    """What a process logs while systems do not answer, whoever notices it: a line at the begin, one a minute, and one
    at the end. True during one, from the first party without an answer until none is left. May be used from any
    thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._failing: dict[object, float] = {}
        self._began = self._reported = 0.0

    def __bool__(self) -> bool:
        return bool(self._failing)

    def failing(self, party: object, text: str) -> None:
        """A party has no answer, for the reason `text`. It calls this again at least every two minutes."""
        with self._lock:
            now = self._without(None)
            begins = not self._failing
            self._failing[party] = now
            self._began = now if begins else self._began
            level = logging.WARNING if begins or now - self._reported >= _LINE_S else logging.DEBUG
            self._reported = now if level == logging.WARNING else self._reported
        logger.log(level, "%s", text if begins else f"{_STILL}{now - self._began:.0f} s: {text}")

    def answered(self, party: object) -> bool:
        with self._lock:
            had_none, went_on = party in self._failing, bool(self._failing)
            now, goes_on = self._without(party), bool(self._failing)
        if went_on and not goes_on:
            logger.warning("%s%.0f s", _OVER, now - self._began)
        return had_none

    def repeat(self, party: str, line: str) -> None:
        """Take a line that the outages of another process have logged."""
        if line.startswith(_OVER):
            self.answered(party)
        else:
            self.failing(party, f"{party}: {line.partition(': ')[2] if line.startswith(_STILL) else line}")

    def _without(self, party: object | None) -> float:
        now = self._clock.monotonic()
        self._failing = {item: at for item, at in self._failing.items() if item != party and now - at < _GONE_S}
        return now


OUTAGES: Final = Outages()


@final
class Outage:
    """The outages of the systems of one container, one after another."""

    def __init__(self, ask: Callable[[], object], wait: Callable[[float], object], outages: Outages = OUTAGES) -> None:
        """`ask` asks the systems for what the next start reads first; it raises SamzapyError. `wait` sleeps, and may
        return early after a stop. For `outages`, this ends when the container runs again."""
        self._ask, self._wait, self._outages = ask, wait, outages
        self._pause_s = _FIRST_S

    def outlast(self, failure: SamzapyError, may_wait: Callable[[], bool], *, anew: bool) -> bool:
        """Wait until the systems answer, or the service of the failure; returns False if `may_wait` does before.

        `anew`: there was a commit since the last outage; otherwise this one goes on. Raises other errors than an
        outage.
        """
        ask = (failure.ask if isinstance(failure, Unreachable) else None) or self._ask
        service = failure.service if isinstance(failure, Unreachable) else Unreachable.service
        self._pause_s = _FIRST_S if anew else self._pause_s
        self._outages.failing(CONTAINER, f"Waiting for {service}: {failure}")
        self._wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_S)
        while may_wait():
            try:
                ask()
            except SamzapyError as silence:
                if not silence.outage:
                    raise
                self._outages.failing(CONTAINER, f"Waiting for {service}: {silence}")
                self._wait(_FIRST_S)
            else:
                return True
        return False
