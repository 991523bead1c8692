"""Runs a job, or any program, in a separate process, samples its process tree, and makes one measurement of both.

The program's last line of output is JSON, and describes the measured stretch:

start, end    `time.monotonic` seconds
cpu_s         CPU seconds, user and system, of the processes with the roles in cpu_of (default: main) in that stretch
messages      the number of processed messages
more          anything else worth keeping
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from samzapy.bench.tasks import MARKS_KEY
from samzapy.errors import ConfigError, EnvironmentFailure, SamzapyError

_LONGEST_STOP_S = 30.0
_OF_ERRORS = {ConfigError.exit_code, EnvironmentFailure.exit_code}
_REPORTED = frozenset({"start", "end", "cpu_s", "messages"})

#: Seconds between two samples.
PACE_S = 0.1
#: The roles: the process that was started, a Java virtual machine below it, any other process below it.
MAIN, JVM, WORKER = "main", "jvm", "worker"
#: The runners.
LOCAL, SPARK = "local", "spark"


class _Sample(NamedTuple):
    at: float
    cpu_s: float
    rss: int
    threads: int
    descriptors: int


class ProcessTree:
    """Samples `pid` and everything below it until `stop`; a process that ends between two samples keeps its last.

    CPU is user and system time of all threads, memory is the resident set in bytes.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._samples: dict[int, list[_Sample]] = defaultdict(list)
        self._role: dict[int, str] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process-tree", daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Sample no more."""
        self._stopped.set()
        self._thread.join()

    @property
    def roles(self) -> set[str]:
        """The roles that were seen."""
        return set(self._role.values())

    def cpu_s(self, role: str | None = None, start: float = 0.0, end: float = float("inf")) -> float:
        """CPU seconds of a role's processes (None: of all) between two `time.monotonic` times."""
        return sum(_cpu_at(samples, end) - _cpu_at(samples, start) for samples in self._of(role))

    def peak_rss(self, role: str | None = None) -> int:
        """The most bytes that a role's processes (None: all) held at one time."""
        held: dict[float, int] = defaultdict(int)
        for samples in self._of(role):
            for sample in samples:
                held[sample.at] += sample.rss
        return max(held.values(), default=0)

    def most(self, roles: set[str], start: float, end: float) -> tuple[int, int]:
        """The most threads, and the most file descriptors, that one process of these roles had between two
        `time.monotonic` times; at the last sample before, if the stretch lies between two samples."""
        seen: list[_Sample] = []
        for samples in (samples for role in roles for samples in self._of(role)):
            inside = [sample for sample in samples if start <= sample.at <= end]
            seen += inside or [max((s for s in samples if s.at < start), default=samples[0])]
        return max((s.threads for s in seen), default=0), max((s.descriptors for s in seen), default=0)

    def _of(self, role: str | None) -> list[list[_Sample]]:
        return [samples for pid, samples in list(self._samples.items()) if role in {None, self._role[pid]}]

    def _run(self) -> None:
        while True:
            self._sample()
            if self._stopped.wait(PACE_S):
                return

    def _sample(self) -> None:
        now = time.monotonic()
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            with suppress(psutil.Error), process.oneshot():
                cpu, rss = process.cpu_times(), process.memory_info().rss
                sample = _Sample(now, cpu.user + cpu.system, rss, process.num_threads(), process.num_fds())
                below = JVM if process.name() == "java" else WORKER
                # A launcher's shell becomes the JVM.
                self._role[process.pid] = MAIN if process.pid == self._root.pid else below
                self._samples[process.pid].append(sample)


def _cpu_at(samples: Sequence[_Sample], moment: float) -> float:
    """CPU at a moment, on the straight line between the samples around it; 0 before the first."""
    place = bisect_left(samples, moment, key=lambda sample: sample.at)
    if place == len(samples):
        return samples[-1].cpu_s
    if not place:
        return 0.0
    before, after = samples[place - 1], samples[place]
    return before.cpu_s + (after.cpu_s - before.cpu_s) * (moment - before.at) / (after.at - before.at)


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
    """Raised when the measured program failed or printed no report; the message ends with its last output. `exit_code`:
    the program's, if it is that of a SamzapyError."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        self.exit_code = exit_code if exit_code in _OF_ERRORS else 1
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
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
        """Plain JSON values."""
        return {
            **asdict(self),
            "messages_per_s": round(self.messages_per_s, 1),
            "cpu_s_per_million": round(self.cpu_s_per_million, 4),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Measurement:
        """The inverse of `to_json`."""
        return cls(**{known.name: values[known.name] for known in fields(cls) if known.name in values})


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
                raise MeasurementFailed(f"{_shown(command)}: not done after {timeout_s:.0f} s") from cause
            raise
        finally:
            tree.stop()
        output.seek(0)
        errors.seek(0)
        lines, said = output.read().splitlines(), errors.read()
    if code or not lines:
        ending = " | ".join((said.splitlines() or lines)[-5:])
        raise MeasurementFailed(f"{_shown(command)}: exit code {code}: {ending}", code)
    return _measurement(_report(command, lines[-1]), tree)


def _shown(command: Sequence[str]) -> str:
    """A command line up to the keys of the job, which may be secrets."""
    return " ".join(takewhile(lambda part: part != "--config", command))


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
            for descendant in (*root.children(recursive=True), root):
                with suppress(psutil.NoSuchProcess):
                    descendant.kill()
            process.wait()


def _report(command: Sequence[str], line: str) -> Mapping[str, Any]:
    with suppress(ValueError):
        report = json.loads(line)
        if isinstance(report, dict) and report.keys() >= _REPORTED:
            return report
    raise MeasurementFailed(f"{_shown(command)}: its last line of output is no report: {line[:200]}")


def _measurement(report: Mapping[str, Any], tree: ProcessTree) -> Measurement:
    start, end = report["start"], report["end"]
    exact = set(report.get("cpu_of", [MAIN]))
    threads, descriptors = tree.most(exact, start, end)
    return Measurement(
        messages=report["messages"],
        seconds=end - start,
        cpu_s=report["cpu_s"] + sum(tree.cpu_s(role, start, end) for role in tree.roles - exact),
        cpu_whole_s=tree.cpu_s(),
        peak_rss={**{role: tree.peak_rss(role) for role in sorted(tree.roles)}, "tree": tree.peak_rss()},
        threads=threads,
        descriptors=descriptors,
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
        # A pipeline, as module:name, is no file.
        file = Path(job).absolute()
        command = ["-m", "samzapy.bench.child", str(file if file.exists() else job), "--runner", runner]
        command += [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
        command += ["--endless"] if endless else []
        return measure(command, timeout_s, program)
