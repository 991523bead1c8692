"""Waits, inside an attempt, for a system that does not answer.

A container that has run before needs no other attempt, no other process and no other clients while its broker is away: it
waits where it is, for as long as the outage lasts. The log has a line at the begin, one a minute, and one at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from samzapy.clock import Clock
from samzapy.errors import SamzapyError, Unreachable

logger = logging.getLogger(__name__)

#: Seconds between two lines.
_LINE_S: Final = 60.0
#: Seconds before the first start of an outage, and at most: each start that fails without a commit doubles them. Requests
#: without an answer are spaced by the system's own gate; this is for systems that answer and cannot be written to.
_FIRST_S, _LONGEST_S = 0.5, 8.0


@final
class Outage:
    """The outages of the systems of one container, one after another."""

    def __init__(self, ask: Callable[[], object], clock: Clock, wait: Callable[[float], object]) -> None:
        """`ask` asks the systems for what the next start reads first; it raises SamzapyError. `wait` sleeps, and may return
        early after a stop."""
        self._ask = ask
        self._clock = clock
        self._wait = wait
        self._began: float | None = None
        self._told = 0.0
        self._pause_s = _FIRST_S

    def outlast(self, failure: SamzapyError, may_wait: Callable[[], bool], *, anew: bool) -> bool:
        """Wait until the systems answer, or the service of the failure; returns False if `may_wait` does before.

        `anew`: there was a commit since the last outage; otherwise this one goes on. Raises other errors than an outage.
        """
        ask = (failure.ask if isinstance(failure, Unreachable) else None) or self._ask
        service = failure.service if isinstance(failure, Unreachable) else Unreachable.service
        if anew or self._began is None:
            self._began, self._pause_s = self._clock.monotonic(), _FIRST_S
            self._told = self._began
            logger.warning("Waiting for %s: %s", service, failure)
        began, asked = self._began, 0
        self._remind(began, service, failure)
        self._wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_S)
        while may_wait():
            asked += 1
            try:
                ask()
            except SamzapyError as silence:
                if not silence.outage:
                    raise
                self._remind(began, service, silence)
                self._wait(_FIRST_S)
            else:
                waited_s = self._clock.monotonic() - began
                answers = service[0].upper() + service[1:]
                # An outage that goes on after a start, behind a question that is answered at once, has had its lines.
                level = logging.WARNING if anew or asked > 1 else logging.DEBUG
                logger.log(level, "%s answers after %.0f s: starting again from the last commit", answers, waited_s)
                return True
        return False

    def _remind(self, began: float, service: str, silence: SamzapyError) -> None:
        now = self._clock.monotonic()
        if now - self._told >= _LINE_S:
            self._told = now
            logger.warning("Waiting for %s for %.0f s: %s", service, now - began, silence)
