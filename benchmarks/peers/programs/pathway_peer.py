"""Pathway: mini-batches of at most 1.5 s; state in memory, nothing kept.

Its engine calls no Python for a message. So the first mark is set before the engine starts, and the last one when a
count of all events, once a mini-batch, has reached their number.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ["PATHWAY_THREADS"] = "1"

import pathway as pw
from run import COMMITTED, FIRST, LAST, PASS_THROUGH, Run, parsed

MINI_BATCH_MS = 1_500


class Event(pw.Schema):
    number: int
    user: str
    page: str
    amount: float
    at: int
    referrer: str | None


def end_after_the_last(run: Run, table: Any) -> None:
    def on_change(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        if is_addition and row["n"] >= run.events:
            run.mark(LAST)
            run.mark(COMMITTED)
            # An endless read has no other end.
            sys.stdout.flush()
            os._exit(0)

    pw.io.subscribe(table.reduce(n=pw.reducers.count()), on_change=on_change)


def main() -> None:
    run = parsed()
    settings = {"bootstrap.servers": run.bootstrap, "group.id": run.id, "auto.offset.reset": "earliest"}
    events = pw.io.kafka.read(
        settings,
        topic=run.input,
        schema=Event,
        format="json",
        autocommit_duration_ms=MINI_BATCH_MS,
        # No column can be called `id`.
        json_field_paths={"number": "/id"},
    )
    if run.workload == PASS_THROUGH:
        seen = events.with_columns(seen=True)
        pw.io.kafka.write(seen, {"bootstrap.servers": run.bootstrap}, run.output, format="json")
        end_after_the_last(run, seen)
    else:
        counts = events.groupby(events.user).reduce(events.user, n=pw.reducers.count())
        pw.io.null.write(counts)
        end_after_the_last(run, events)
    run.mark(FIRST)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
