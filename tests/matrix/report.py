"""Tries the cells one after the other, and shows what became of them."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.devkafka.broker import free_port
from tests.matrix.cells import Cell, Step
from tests.matrix.commands import TIMED_OUT, Done, NotAvailable
from tests.matrix.commands import run as run_command
from tests.matrix.environments import MadeEnvironment, built_wheel, made

_COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
#: Variables of this run that would lead a cell to another environment's packages.
_NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


@dataclass
class Result:
    """A cell: the versions in it or why there are none, and what each step came to."""

    cell: Cell
    versions: str
    steps: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    failed: bool = False


def run(root: Path, cells: Sequence[Cell], table: Path | None, keep: Path | None) -> int:
    """Try the cells and show them; the exit code: 0 unless a step failed. Cells that are not available do not count."""
    with ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="samzapy-matrix-")))
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.absolute()
        wheel = built_wheel(root, folder)
        results = [_tried(cell, root, wheel, folder) for cell in cells]
    text = markdown(results)
    sys.stdout.write(text)
    if table is not None:
        table.write_text(text, "utf-8")
    return 1 if any(result.failed for result in results) else 0


def _tried(cell: Cell, root: Path, wheel: Path, folder: Path) -> Result:
    _say(f"{cell.name}: making its environment")
    try:
        environment = made(cell, wheel, folder)
    except NotAvailable as reason:
        _say(f"{cell.name}: not available here: {reason}")
        return Result(cell, f"not available here: {reason}")
    result = Result(cell, environment.versions)
    _say(f"{cell.name}: {environment.versions}")
    for number, step in enumerate(cell.steps):
        place = folder / "steps" / f"{cell.name.replace(' ', '-')}-{number}"
        done = _done(step, cell, environment, root, place, folder)
        good = done.code == 0 and step.shows in done.output
        result.steps[step.name] = outcome(done, good=good)
        result.seconds += done.seconds
        result.failed |= not good
        _say(f"  {step.name}: {result.steps[step.name]} ({done.seconds:.0f} s)")
        if not good:
            _say("    " + "\n    ".join(done.output.splitlines()[-30:]))
        shutil.rmtree(place, ignore_errors=True)
    return result


def _done(step: Step, cell: Cell, environment: MadeEnvironment, root: Path, place: Path, folder: Path) -> Done:
    place.mkdir(parents=True)
    names = {"{root}": str(root), "{folder}": str(place), "{port}": str(free_port())}
    command = [re.sub(r"\{\w+\}", lambda found: names[found[0]], part) for part in step.command]
    environ = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}
    environ |= dict(cell.environ)
    environ["PATH"] = f"{environment.programs}{os.pathsep}{environ.get('PATH', os.defpath)}"
    # The jars of brokers are fetched anew, once for all cells.
    environ["SAMZAPY_CACHE"] = str(folder / "cache")
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return run_command(command, place, environ, step.limit_s)


def outcome(done: Done, *, good: bool) -> str:
    """A step in a few words: the counts of a test run, else whether it went well."""
    counts = ", ".join(f"{number} {what}" for number, what in _COUNTS.findall(done.last_line))
    if done.code == TIMED_OUT:
        return f"TIMED OUT after {done.seconds:.0f} s"
    if counts:
        return counts if good else f"FAILED: {counts}"
    return "ok" if good else f"FAILED: exit code {done.code}"


def markdown(results: Sequence[Result]) -> str:
    """The table of all cells, a row each."""
    names = list(dict.fromkeys(step.name for result in results for step in result.cell.steps if result.steps))
    lines = [["cell", "versions", *names, "s"], ["---"] * (len(names) + 3)]
    for result in results:
        steps = [result.steps.get(name, "") for name in names]
        lines.append([result.cell.name, result.versions, *steps, f"{result.seconds:.0f}" if result.steps else ""])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
