"""One run of a peer: its process tree sampled, from before its first message to after its last and to its final
commit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.launchers import Launcher, Settings
from benchmarks.peers.programs.run import COMMITTED, FIRST, LAST
from samzapy.bench.measuring import Measurement, MeasurementFailed, ProcessTree

#: Seconds that a run may take, and that a peer may take to stop after its last message.
LONGEST_S, GRACE_S = 600.0, 60.0
_LOOK_S = 0.1


def measure(launcher: Launcher, settings: Settings) -> Measurement:
    """Start the peer, wait for its end, and measure the stretch between its first and its last message; `more` has the
    seconds and the CPU until its final commit too, if it marks that. Raises MeasurementFailed."""
    started = time.monotonic()
    with running(launcher.command(settings), settings) as (process, tree):
        _wait(process, settings.marks, started)
    marks = marks_of(settings.marks)
    if FIRST not in marks or LAST not in marks:
        code = process.returncode
        raise MeasurementFailed(f"not every message was processed, exit code {code}: {last_words(settings)}")
    return _measurement(settings, marks, tree, marks[FIRST] - started)


@contextmanager
def running(command: Sequence[str], settings: Settings) -> Iterator[tuple[subprocess.Popen[bytes], ProcessTree]]:
    """A peer and its sampled processes; killed in the end if it still runs."""
    settings.folder.mkdir(parents=True)
    with _log(settings).open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        tree = ProcessTree(process.pid)
        tree.start()
        try:
            yield process, tree
        finally:
            tree.stop()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def last_words(settings: Settings) -> str:
    """The end of what a peer has printed."""
    return " | ".join(_log(settings).read_text("utf-8", errors="replace").splitlines()[-5:])[-1_000:]


def _log(settings: Settings) -> Path:
    return settings.folder.with_suffix(".log")


def _wait(process: subprocess.Popen[bytes], marks: Path, started: float) -> None:
    """Until it ends, or has had its time."""
    deadline, done = started + LONGEST_S, False
    while time.monotonic() < deadline:
        try:
            process.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            if not done and LAST in marks_of(marks):
                done, deadline = True, min(deadline, time.monotonic() + GRACE_S)
            continue
        return


def marks_of(path: Path) -> dict[str, float]:
    """The last time of each event; whole lines only."""
    text = path.read_text("ascii") if path.exists() else ""
    lines = (line.split() for line in text[: text.rfind("\n") + 1].splitlines())
    return {event: float(at) for event, at in lines}


def _measurement(settings: Settings, marks: dict[str, float], tree: ProcessTree, start_s: float) -> Measurement:
    first, last = marks[FIRST], marks[LAST]
    more = {"start_s": start_s}
    if COMMITTED in marks:
        more["committed_s"] = marks[COMMITTED] - first
        more["committed_cpu_s"] = tree.cpu_s(None, first, marks[COMMITTED])
    return Measurement(
        messages=settings.events,
        seconds=last - first,
        cpu_s=tree.cpu_s(None, first, last),
        cpu_whole_s=tree.cpu_s(),
        peak_rss={"tree": tree.peak_rss()},
        more=more,
    )
