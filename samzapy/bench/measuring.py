"""Runs a job, or any program, in a separate process, samples its process tree, and makes one measurement of both.

The program's last line of output is JSON, and describes the measured stretch:

start, end    `time.monotonic` seconds
cpu_s         CPU seconds, user and system, of the processes with the roles in cpu_of (default: main) in that stretch
messages      the number of processed messages
timeline      [time, partition, next offset], in the order of time
more          anything else worth keeping
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil

from samzapy.bench.child import LOCAL
from samzapy.bench.processes import MAIN, ProcessTree
from samzapy.bench.tasks import MARKS_KEY
from samzapy.errors import SamzapyError

#: The approximate length of a phase in seconds.
PHASE_S = 0.25
_LONGEST_STOP_S = 30.0
_REPORTED = frozenset({"start", "end", "cpu_s", "messages"})


@dataclass(frozen=True)
class Program:
    """The Python that runs the measured program, its working folder, and more variables of its environment; packages in
    the folder come first."""

    python: Path = Path(sys.executable)
    folder: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict)


#: This process's own Python and folder.
THIS_PROGRAM = Program()


class MeasurementFailed(SamzapyError):
    """Raised when the measured program failed or printed no report; the message ends with its last output."""


@dataclass(frozen=True)
class Phase:
    """A part of the measured stretch; `open_partitions` have messages left at its end."""

    seconds: float
    messages_per_s: float
    open_partitions: int


@dataclass(frozen=True)
class Measurement:
    """One run. `seconds` and `cpu_s` are of the measured stretch, `cpu_whole_s` of all processes from start to end;
    `peak_rss` is in bytes by role (main, jvm, worker) and of the whole `tree`; `threads` and `descriptors` are the most
    of any reporting process in that stretch."""

    messages: int
    seconds: float
    cpu_s: float
    cpu_whole_s: float
    peak_rss: Mapping[str, int]
    threads: int = 0
    descriptors: int = 0
    phases: tuple[Phase, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def messages_per_s(self) -> float:
        """Throughput of the measured stretch."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def cpu_s_per_million(self) -> float:
        """CPU seconds per million messages."""
        return self.cpu_s / self.messages * 1e6 if self.messages else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; a phase is [seconds, messages a second, open partitions]."""
        return {
            **asdict(self),
            "messages_per_s": round(self.messages_per_s, 1),
            "cpu_s_per_million": round(self.cpu_s_per_million, 4),
            "phases": [[round(p.seconds, 3), round(p.messages_per_s), p.open_partitions] for p in self.phases],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Measurement:
        """The inverse of `to_json`."""
        kept = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        return cls(**{**kept, "phases": tuple(Phase(*phase) for phase in values.get("phases", ()))})


def measure(command: Sequence[str], timeout_s: float | None = 600.0, program: Program = THIS_PROGRAM) -> Measurement:
    """Run `command`, arguments of the program's Python, and measure it. Raises MeasurementFailed, also if it takes
    longer than `timeout_s` (None: no limit)."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors,
    ):
        process = subprocess.Popen(
            [str(program.python), *command],
            stdout=output,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            cwd=program.folder,
            env={**os.environ, **program.environment},
        )
        tree = ProcessTree(process.pid)
        tree.start()
        try:
            code = process.wait(timeout_s)
        except BaseException as cause:
            _end(process)
            if isinstance(cause, subprocess.TimeoutExpired):
                raise MeasurementFailed(f"{' '.join(command)}: not done after {timeout_s:.0f} s") from cause
            raise
        finally:
            tree.stop()
        output.seek(0)
        errors.seek(0)
        lines, said = output.read().splitlines(), errors.read()
    if code or not lines:
        ending = " | ".join((said.splitlines() or lines)[-5:])
        raise MeasurementFailed(f"{' '.join(command)}: exit code {code}: {ending}")
    return _measurement(_report(command, lines[-1]), tree)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop the process; if it does not stop, kill it and its descendants."""
    process.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LONGEST_STOP_S)
    finally:
        # A job notices a stop only between messages, which a hanging task never reaches.
        if process.poll() is None:
            root = psutil.Process(process.pid)
            for each in (*root.children(recursive=True), root):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            process.wait()


def _report(command: Sequence[str], line: str) -> Mapping[str, Any]:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and found.keys() >= _REPORTED:
            return found
    raise MeasurementFailed(f"{' '.join(command)}: its last line of output is no report: {line[:200]}")


def phases(timeline: Sequence[Sequence[float]]) -> tuple[Phase, ...]:
    """Throughput between the entries of a timeline; entries within one PHASE_S are combined."""
    final = {partition: offset for _, partition, offset in timeline}
    reached = {partition: offset for _, partition, offset in reversed(timeline)}
    found: list[Phase] = []
    since, before = (timeline[0][0] if timeline else 0.0), sum(reached.values())
    for _, entries in groupby(timeline, key=lambda entry: entry[0] // PHASE_S):
        at = since
        for at, partition, offset in entries:  # noqa: B007  # the last one's time is the phase's end
            reached[partition] = offset
        done = sum(reached.values())
        if done > before:
            still_open = sum(reached[partition] < end for partition, end in final.items())
            found.append(Phase(at - since, (done - before) / (at - since), still_open))
            since, before = at, done
    return tuple(found)


def _measurement(report: Mapping[str, Any], tree: ProcessTree) -> Measurement:
    start, end = report["start"], report["end"]
    exact = set(report.get("cpu_of", [MAIN]))
    sampled = sum(tree.cpu_s(role, start, end) for role in tree.roles - exact)
    return Measurement(
        messages=report["messages"],
        seconds=end - start,
        cpu_s=report["cpu_s"] + sampled,
        cpu_whole_s=tree.cpu_s(),
        peak_rss={**{role: tree.peak_rss(role) for role in sorted(tree.roles)}, "tree": tree.peak_rss()},
        threads=max(tree.most_threads(role, start, end) for role in exact),
        descriptors=max(tree.most_descriptors(role, start, end) for role in exact),
        phases=phases(report.get("timeline", ())),
        more=report.get("more", {}),
    )


def measure_job(
    job: Path | str,
    overrides: Mapping[str, str] | None = None,
    runner: str = LOCAL,
    *,
    endless: bool = False,
    marks: Path | None = None,
    timeout_s: float | None = 600.0,
    program: Program = THIS_PROGRAM,
) -> Measurement:
    """Run the job over its current inputs, with the `local` or the `spark` runner, and measure it.

    `endless`: until its tasks stop it. `marks`: the file for the marks of its tasks (default: a temporary one); the
    first task that is ready creates it. Raises MeasurementFailed as `measure` does.
    """
    with tempfile.TemporaryDirectory(prefix="samzapy-bench-") as folder:
        config = {**(overrides or {}), MARKS_KEY: str(marks or Path(folder) / "marks")}
        command = ["-m", "samzapy.bench.child", str(Path(job).absolute()), "--runner", runner]
        command += [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
        command += ["--endless"] if endless else []
        return measure(command, timeout_s, program)
