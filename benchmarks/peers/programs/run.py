"""One measured run of a peer written in Python: what its command line says, and the marks it leaves.

Standard library only: the programs beside this one run in environments that hold nothing of ours.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

FIRST, LAST, COMMITTED = "first", "last", "committed"
KEYED_COUNT, PASS_THROUGH, REPARTITIONED = "keyed-count", "pass-through", "repartitioned-count"


@dataclass
class Run:
    """`marks` gets a line an event: the event and `time.monotonic` seconds, one clock for all processes of a machine.
    `folder` is for local state, `id` a name that nothing else on the broker has; with 0 `events` the run has no end."""

    bootstrap: str
    input: str
    output: str
    workload: str
    id: str
    folder: Path
    marks: Path
    events: int
    commit_ms: int
    guarantee: str = ""
    engine: str = ""
    done: int = 0
    begun: bool = False

    def begin(self) -> None:
        """Call it with the first message, if it is counted later."""
        if not self.begun:
            self.begun = True
            self.mark(FIRST)

    def processed(self, count: int = 1) -> bool:
        """Count messages; True when the last one of the run is among them."""
        self.begin()
        self.done += count
        if not self.events or self.done < self.events:
            return False
        self.mark(LAST)
        return True

    def mark(self, event: str, at: float | None = None) -> None:
        mark(self.marks, event, at)


def mark(marks: Path, event: str, at: float | None = None) -> None:
    """Add a line to the marks, as of a monotonic time (default: now)."""
    with marks.open("a", encoding="ascii") as file:
        file.write(f"{event} {time.monotonic() if at is None else at}\n")


def parsed() -> Run:
    """The run of this process, from its command line."""
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--input", "--output", "--id"):
        parser.add_argument(name, required=True)
    parser.add_argument("--workload", required=True, choices=(KEYED_COUNT, PASS_THROUGH, REPARTITIONED))
    for name in ("--folder", "--marks"):
        parser.add_argument(name, required=True, type=Path)
    for name in ("--events", "--commit-ms"):
        parser.add_argument(name, required=True, type=int)
    for name in ("--guarantee", "--engine"):
        parser.add_argument(name, default="")
    return Run(**vars(parser.parse_args()))
