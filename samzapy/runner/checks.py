"""Runs what the driver checks from time to time: one table of checks, and one loop.

1. A row of the table has a name, a pace and a check. The row that has been due for the longest time runs next.
2. Checks that ask the cluster run in a thread of their own, one after another and with one set of clients: a cluster
   that does not answer holds up neither the status nor anything else that asks nobody.
3. Failures are one line until all checks work again (in an outage, the lines of `Outages`), and the shared clients are
   closed: the next check connects anew. The gate of the system spaces the requests. The table goes on until it is
   ended.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from samzapy.clock import SYSTEM_CLOCK
from samzapy.container.supervision.job_records import JobRecords
from samzapy.container.supervision.outage import OUTAGES, Outages
from samzapy.errors import SamzapyError

logger = logging.getLogger(__name__)

#: Seconds that the end of a run waits for the checks. A longer one is left to its thread: it ends with the process.
PATIENCE_S = 5.0
#: The same for a check that asks nobody in the cluster; it may wait for Spark.
_LOCAL_S = 1.0
#: Seconds after a failure until the next try, for rows with a longer pace: what is unknown is not so for longer than it
#: must be.
_AGAIN_S = 10.0


@dataclass(eq=False)
class Row:
    """A check that runs every `pace_s` seconds, which it may change. It returns whether to go on. `last` is called at
    the end, in the same thread."""

    name: str
    pace_s: float
    check: Callable[[], bool]
    last: Callable[[], object] = lambda: None
    due: float = field(default=0.0, init=False)
    failing: bool = field(default=False, init=False)


@final
class Checks:
    """The table. It runs from the first `add` to `end`. `records`: the clients of the checks that ask the cluster, for
    these checks only."""

    def __init__(self, records: JobRecords, outages: Outages = OUTAGES) -> None:
        """The table closes `records`. `outages`: where failures that are an outage are logged."""
        self.records = records
        self._asking = _Loop("cluster-checks", records.close, outages)
        self._local = _Loop("checks", lambda: None, outages)

    def add(self, row: Row, first_s: float | None = None, *, asks: bool = True) -> None:
        """Run a row from now on, after `first_s` seconds, by default its pace. `asks`: it asks the cluster."""
        (self._asking if asks else self._local).add(row, row.pace_s if first_s is None else first_s)

    def end(self, patience_s: float = PATIENCE_S) -> bool:
        """Stop, and wait for running checks; returns whether those that ask the cluster have ended, so that `records`
        are free."""
        self._local.stop()
        self._asking.stop()
        self._local.join(min(patience_s, _LOCAL_S))
        return self._asking.join(patience_s)


class _Loop:
    """Some rows in one thread, which starts with the first of them."""

    def __init__(self, name: str, reset: Callable[[], None], outages: Outages) -> None:
        """`reset` is called after a failure, and at the end."""
        self._outages = outages
        self._is_reported = False
        self._reset = reset
        self._rows: list[Row] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def add(self, row: Row, first_s: float) -> None:
        with self._changed:
            row.due = SYSTEM_CLOCK.monotonic() + first_s
            self._rows.append(row)
            self._changed.notify_all()
            if self._thread.ident is None and not self._stopped:
                self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join(self, patience_s: float) -> bool:
        if self._thread.ident is None:
            return True
        self._thread.join(patience_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while (row := self._next()) is not None:
                goes_on = self._try(row, row.check) is not False
                with self._changed:
                    pace_s = min(row.pace_s, _AGAIN_S) if row.failing else row.pace_s
                    row.due = SYSTEM_CLOCK.monotonic() + pace_s
                    if not goes_on:
                        row.due = float("inf")
        finally:
            for row in self._rows:
                self._try(row, row.last)
            self._reset()

    def _next(self) -> Row | None:
        """Wait for the next row that is due; None after the end."""
        with self._changed:
            while not self._stopped:
                row = min(self._rows, key=lambda each: each.due)
                left_s = row.due - SYSTEM_CLOCK.monotonic()
                if left_s <= 0:
                    return row
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            return None

    def _try(self, row: Row, call: Callable[[], object]) -> object:
        """The result of the call; None if it has failed. What a check guards, such as the owner of the job, must not go
        unchecked for one unexpected error."""
        try:
            result = call()
        except Exception as cause:
            expected = isinstance(cause, SamzapyError)
            if isinstance(cause, SamzapyError) and cause.outage:
                self._outages.failing(self, f"The check '{row.name}' failed ({cause}); checking again")
            else:
                # One cause makes several rows fail: one of them says so.
                known = row.failing or (expected and any(item.failing for item in self._rows))
                level = logging.DEBUG if known else logging.WARNING if expected else logging.ERROR
                logger.log(level, "The check '%s' failed (%s); checking again", row.name, cause, exc_info=not expected)
                self._is_reported = True
            row.failing = True
            self._reset()
            return None
        if row.failing:
            row.failing = False
            if not any(item.failing for item in self._rows):
                self._outages.answered(self)
                if self._is_reported:
                    self._is_reported = False
                    logger.info("The checks work again")
        return result
