"""Counts the failures of a job's user code that come again and again, whichever rung of the ladder of retries tries again.

The driver sees the end of every attempt, so the count is here: Spark's own retries, attempts that are placed anew and jobs
that are submitted again come together to one number.

1. A failure at a message counts for the life of the run: a message that was processed does not come again.
2. A failure without a message (`init`, `window`, a commit) counts as the same only within `SOUND_S` of the one before.
3. Failures that say nothing about the user's code (a broker that is away, a lost lease) are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from samzapy.clock import Clock
from samzapy.job.facts import UserFailure

#: Seconds between two failures without a message after which the second is a new one.
SOUND_S = 300.0
#: Different failures that are remembered; the oldest is forgotten first.
MOST = 1_000


@dataclass
class _Seen:
    failure: UserFailure
    times: int
    at: float


class SameFailures:
    """Counts up to `most`, the number of failed attempts that end a job. One caller at a time."""

    def __init__(self, most: int, clock: Clock) -> None:
        self.most = most
        self._clock = clock
        self._seen: list[_Seen] = []

    def times(self, failure: UserFailure) -> int:
        """Take the failure that ended an attempt; returns how many attempts have failed so, this one included."""
        now = self._clock.monotonic()
        for seen in self._seen:
            if failure.is_again(seen.failure):
                again = bool(failure.partition) or now - seen.at < SOUND_S
                seen.times, seen.at, seen.failure = (seen.times + 1 if again else 1), now, failure
                return seen.times
        self._seen = [*self._seen[1 - MOST :], _Seen(failure, 1, now)]
        return 1
