"""Spaces the requests of this process to a cluster that does not answer.

Everything that asks a cluster passes its gate: admins, consumers and producers that start, and commits to consumer
groups. After a request without an answer the gate is closed for a time, for the whole process: the next request waits,
whoever sends it. The first answer opens the gate again. While the cluster answers, the gate costs one comparison.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import cache
from typing import Final, TypeVar, final

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import SamzapyError, Unreachable

_Answer = TypeVar("_Answer")

#: Seconds for which the gate is closed after the first failure in a row, and at most. Half of it is random. A longer
#: pause would keep a job from going on within 15 s after its cluster is whole again.
FIRST_S: Final = 0.5
LONGEST_S: Final = 8.0
#: Seconds between two checks of the gate by a request that waits.
_SLICE_S = 0.2


def _sleep(seconds: float) -> None:
    threading.Event().wait(seconds)


@final
class Gate:
    """The gate of one cluster. Safe to use from several threads."""

    def __init__(
        self,
        servers: str,
        clock: Clock = SYSTEM_CLOCK,
        sleep: Callable[[float], object] = _sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`servers` names the cluster in errors. `chance` returns a number from 0 to 1."""
        self._servers = servers
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._lock = threading.Lock()
        self._failures = 0
        self._opens_at = 0.0

    def ask(self, request: Callable[[], _Answer], patience_s: float = 0.0, *, proves: bool = True) -> _Answer:
        """The answer to `request`, which is sent when the gate is open, and repeated after failures that are an outage,
        for at most `patience_s` seconds. Raises its last error; Unreachable at once, since that has taken its time.

        `proves`: whether an answer opens the gate. Any living broker answers a request for metadata, so that proves
        little.
        """
        deadline = self._clock.monotonic() + patience_s
        while True:
            self._wait(max(0.0, deadline - self._clock.monotonic()))
            asked_at = self._clock.monotonic()
            try:
                answer = request()
            except SamzapyError as failure:
                if not failure.outage:
                    self._answered(proves=proves)
                    raise
                opens_at = self._failed(asked_at)
                if isinstance(failure, Unreachable) or opens_at >= deadline:
                    raise
            else:
                self._answered(proves=proves)
                return answer

    def _wait(self, patience_s: float) -> None:
        """Wait until the gate is open. Raises Unreachable if that takes longer than `patience_s` or than the longest
        time for which a gate is closed, whichever is longer."""
        if not self._failures:
            return
        deadline = self._clock.monotonic() + max(patience_s, LONGEST_S)
        while (left_s := self._opens_at - (now := self._clock.monotonic())) > 0 and self._failures:
            if now >= deadline:
                raise Unreachable(f"cannot reach {self._servers}: {self._failures} requests in a row had no answer")
            self._sleep(min(left_s, _SLICE_S))

    def _failed(self, asked_at: float) -> float:
        """Note that a request, sent at `asked_at`, has no answer. Returns when the gate opens, as monotonic time."""
        with self._lock:
            now = self._clock.monotonic()
            # Requests that were under way together fail together, which counts once.
            if not self._failures or asked_at >= self._opens_at:
                self._failures += 1
                pause_s = min(LONGEST_S, FIRST_S * 2 ** (self._failures - 1))
                self._opens_at = now + pause_s * (1 + self._chance()) / 2
            return self._opens_at

    def _answered(self, *, proves: bool) -> None:
        if self._failures and proves:
            with self._lock:
                self._failures = 0


@cache
def gate_of(servers: str) -> Gate:
    """The gate of this process for the cluster at `servers`."""
    return Gate(servers)
