"""Counts repeated failures of the user's code, whichever rung of the ladder of retries tries again.

The driver sees the end of every attempt, so it counts them all: Spark's retries, attempts at other places, and
resubmitted jobs.

1. A failure at a message counts for the whole run: once a message is processed, it does not come again.
2. A failure without a message (`init`, `window`, a commit) is a repetition only within `SOUND_S` of the last one.
3. Failures that do not come from the user's code (a broker that does not answer, a lost lease) are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.clock import Clock
from samzapy.job.facts import UserFailure

#: Seconds between two failures without a message after which the second is a new one.
SOUND_S = 300.0
#: Distinct failures that are kept; the oldest is dropped first.
MOST = 1_000


@dataclass
class _Seen:
    failure: UserFailure
    times: int
    at: float


class SameFailures:
    """Counts failures of each kind; `most` of one kind end the job. One caller at a time."""

    def __init__(self, most: int, clock: Clock) -> None:
        self.most = most
        self._clock = clock
        self._seen: list[_Seen] = []

    def times(self, failure: UserFailure) -> int:
        """Count the failure that ended an attempt; returns the number of attempts that failed in this way, including
        this one."""
        now = self._clock.monotonic()
        for seen in self._seen:
            if failure.is_again(seen.failure):
                again = bool(failure.partition) or now - seen.at < SOUND_S
                seen.times, seen.at, seen.failure = (seen.times + 1 if again else 1), now, failure
                return seen.times
        self._seen = [*self._seen[1 - MOST :], _Seen(failure, 1, now)]
        return 1
