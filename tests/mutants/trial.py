"""Making one change at a time in a copy of the tree, and running the tests that must notice it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import SimpleQueue

_IGNORED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "results", "state", "*.log")
#: Seconds for all tests together, without a change.
_UNCHANGED_S = 3_600.0
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in `file`; `tests` are what pytest is given, of which one must fail."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]


class Outcome(Enum):
    """What the tests made of a change."""

    KILLED = "killed"
    TIMED_OUT = "killed by the time limit"
    SURVIVED = "SURVIVED"
    UNKNOWN = "NO TESTS RAN"

    @property
    def good(self) -> bool:
        """Whether the change was noticed."""
        return self in {Outcome.KILLED, Outcome.TIMED_OUT}


class TrialFailed(Exception):
    """Nothing can be said of the changes; one line a reason."""


def check(root: Path, mutants: Sequence[Mutant]) -> None:
    """Raise TrialFailed unless each change can be made, and in one place only."""
    wrong = []
    for mutant in mutants:
        path = root / mutant.file
        times = path.read_text().count(mutant.old) if path.is_file() else 0
        if times != 1:
            wrong.append(f"{mutant.file}: expected once, found {times} times: {mutant.old!r}")
        if mutant.old == mutant.new:
            wrong.append(f"{mutant.file}: changes nothing: {mutant.old!r}")
    if wrong:
        raise TrialFailed("\n".join(wrong))


def run(root: Path, mutants: Sequence[Mutant], say: Callable[[str], object], *, limit_s: float = 300.0) -> int:
    """Try the changes and show them; the exit code: 0 if every one of them was noticed."""
    try:
        outcomes = _try_all(root, mutants, say, 2, limit_s)
    except TrialFailed as reason:
        say(str(reason))
        return 1
    noticed = sum(outcome.good for outcome in outcomes)
    say(f"{noticed} of {len(outcomes)} changes were noticed")
    return 0 if noticed == len(outcomes) > 0 else 1


def _try_all(
    root: Path, mutants: Sequence[Mutant], say: Callable[[str], object], processes: int, limit_s: float
) -> list[Outcome]:
    check(root, mutants)
    with tempfile.TemporaryDirectory(prefix="samzapy-mutants-") as folder, ThreadPoolExecutor(processes) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(processes):
            copies.put(shutil.copytree(root, Path(folder) / str(number), ignore=_IGNORED, symlinks=True))
        _check_tests(copies, mutants)

        def trial(mutant: Mutant) -> Outcome:
            copy, began = copies.get(), time.monotonic()
            try:
                outcome = _try(copy, mutant, limit_s)
            finally:
                copies.put(copy)
            old, new = (" ".join(text.split()) for text in (mutant.old, mutant.new))
            say(f"{mutant.file}: {old} -> {new}: {outcome.value} ({time.monotonic() - began:.0f} s)")
            return outcome

        return list(pool.map(trial, mutants))


def _check_tests(copies: SimpleQueue[Path], mutants: Sequence[Mutant]) -> None:
    """The tests must pass as long as nothing is changed, or their failing means nothing."""
    copy = copies.get()
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    code, output = _pytest(copy, tests, _UNCHANGED_S)
    copies.put(copy)
    if code != _PASSED:
        raise TrialFailed(f"without a change the tests do not pass:\n{output[-4000:]}")


def _try(copy: Path, mutant: Mutant, limit_s: float) -> Outcome:
    with _changed(copy / mutant.file, mutant):
        code, _ = _pytest(copy, mutant.tests, limit_s)
    outcomes = {None: Outcome.TIMED_OUT, _PASSED: Outcome.SURVIVED, _FAILED: Outcome.KILLED}
    return outcomes.get(code, Outcome.UNKNOWN)


@contextmanager
def _changed(path: Path, mutant: Mutant) -> Iterator[None]:
    text = path.read_text()
    path.write_text(text.replace(mutant.old, mutant.new))
    try:
        _compile(path)
        yield
    finally:
        path.write_text(text)
        _compile(path)


_COMPILE = """
import sys
from pathlib import Path
from samzapy.native.compiler import compile_extension
sys.exit(compile_extension(Path(sys.argv[1])) or None)
"""


def _compile(path: Path) -> None:
    """Compile the extension again if the file is one of its sources: it is not used, and not tested, if it is of
    others."""
    if path.suffix not in {".c", ".h"}:
        return
    copy = path.parents[2]
    environment = os.environ | {"PYTHONPATH": str(copy), "SAMZAPY_NATIVE": "0"}
    command = [sys.executable, "-c", _COMPILE, str(path.parent / "extension.abi3.so")]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TrialFailed(f"{path.name}: {done.stderr.strip()}")


def _pytest(copy: Path, tests: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """The exit code, None at the time limit, and what was said."""
    # No compiled files: two changes of one length within a second would look alike to the interpreter.
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output
    return process.returncode, output
