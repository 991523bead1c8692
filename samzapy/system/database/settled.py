"""Up to where a table may be read without a row turning up later that belongs before.

Rows get their place (a number from a sequence, a time) while they are written, and are seen when their transaction
commits: 8 may be there while 7 is not yet. A reader that went past 7 would never see it. So it goes only as far as

*   the numbers follow one another without a gap, or
*   everything up to a number that was the greatest when all transactions that were writing then (PostgreSQL shows their
    locks) have ended, and the safety lag has passed. A number below that is free for good: rolled back, or deleted.

That holds for numbers drawn by the statement that writes the row: identity, serial, a default or a trigger with nextval,
in a sequence without a cache. Who draws them earlier (a mapper that takes blocks of ids, the application's own counter)
has to say how much earlier, at most, by `database.safety.lag.ms`.

With timestamps there are no gaps to see, and a transaction may begin, and so take its time, before it writes: there it is
the lag alone, by the database's own clock; the writers' clocks, if they are others, may be off by what the lag has to spare.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import sqlalchemy as sa

from samzapy.clock import Clock
from samzapy.system.database.table import SourceTable
from samzapy.system.database.times import now_s
from samzapy.system.database.writers import Writers

logger = logging.getLogger(__name__)

_NUMBERS_AT_ONCE = 1000
_TIMESTAMP_LAG_MS = 10_000


#: Who waits longer than this says so, once.
_PATIENCE_S = 60.0


@dataclass
class _Unsettled:
    """The greatest number at a time, and who was writing then."""

    greatest: int
    since: float
    writers: frozenset[str]
    told: bool = False


class SettledNumbers:
    """For an integer order column. `end` is asked once a look; it never goes back."""

    def __init__(self, source: SourceTable, start: int, writers: Writers, clock: Clock) -> None:
        """`start`: the number before which nobody reads."""
        self._order = source.order
        self._where = source.where
        self._end = start
        self._writers = writers
        lag_ms = source.config.safety_lag_ms
        self._lag_s = (writers.default_lag_ms if lag_ms is None else lag_ms) / 1000
        self._clock = clock
        self._waiting: _Unsettled | None = None

    def end(self, connection: sa.Connection) -> int:
        """Every row with a smaller number may be read; in a statement of its own, which starts after this one."""
        greatest = connection.scalar(sa.select(sa.func.max(self._order)))
        if greatest is None or greatest < self._end:
            return self._end
        # After the greatest number: who had drawn a smaller one by then is still among them, or has ended.
        writers, now = self._writers.now(connection), self._clock.monotonic()
        self._settle(writers, now)
        if self._waiting is None and greatest >= self._end:
            self._waiting = _Unsettled(greatest, now, writers)
            self._settle(writers, now)
        if greatest >= self._end:
            self._end = self._without_gap(connection)
            self._complain(writers, now)
        return self._end

    def _settle(self, writers: frozenset[str], now: float) -> None:
        waiting = self._waiting
        if waiting is not None and now - waiting.since >= self._lag_s and not waiting.writers & writers:
            self._end, self._waiting = max(self._end, waiting.greatest + 1), None

    def _complain(self, writers: frozenset[str], now: float) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.told and now - waiting.since > max(_PATIENCE_S, 2 * self._lag_s):
            waiting.told = True
            logger.warning(
                "%s@%d: waiting for %d transactions that have been writing to the table for more than %.0f s: %s",
                *(self._where, self._end, len(waiting.writers & writers), now - waiting.since),
                ", ".join(sorted(waiting.writers & writers)),
            )

    def _without_gap(self, connection: sa.Connection) -> int:
        order, end = self._order, self._end
        numbers = sa.select(order).where(order >= end).order_by(order).limit(_NUMBERS_AT_ONCE)
        for number in connection.scalars(numbers):
            if number != end:
                break
            end += 1
        return end


class SettledSeconds:
    """For a timestamp: whole seconds, so that what a second holds is known when it is read."""

    def __init__(self, source: SourceTable, clock: Clock) -> None:
        lag_ms = source.config.safety_lag_ms
        self._lag_s = (_TIMESTAMP_LAG_MS if lag_ms is None else lag_ms) / 1000
        self._clock = clock

    def end(self, connection: sa.Connection) -> int:
        """Every row of an earlier second may be read."""
        return max(0, int(now_s(connection, self._clock) - self._lag_s))
