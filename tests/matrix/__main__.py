"""`python -m tests.matrix [--only TEXT] [--table FILE] [--keep FOLDER]`."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from samzapy.devkafka.broker import free_port
from tests.matrix.cells import CELLS, Cell, Step

ROOT = Path(__file__).parents[2]
LONGEST_INSTALL_S = 900.0
#: Variables of this run that would lead a cell to another environment's packages.
NOT_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
VERSIONS = (
    "import sys; from importlib.metadata import version;"
    "print('Python %d.%d.%d, pyspark %s' % (*sys.version_info[:3], version('pyspark')))"
)
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


class NotAvailable(Exception):
    """A cell that cannot be tried on this machine; one line with the reason."""


@dataclass
class Result:
    """A cell: the versions in it, or why there are none, and the outcome of each step."""

    cell: Cell
    versions: str
    steps: dict[str, str] = field(default_factory=dict)


def run(command: Sequence[object], folder: Path, environ: Mapping[str, str], limit_s: float) -> tuple[bool, list[str]]:
    """Run a command in a session of its own, which is killed at the limit; returns success and the lines of output."""
    with subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output += f"\nTIMED OUT after {limit_s:.0f} s"
        return process.returncode == 0, [line for line in output.splitlines() if line.strip()] or ["no output"]


def install(folder: Path, *command: object) -> None:
    """Run a command of the installation. Raises NotAvailable."""
    good, lines = run(command, folder, os.environ, LONGEST_INSTALL_S)
    if not good:
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise NotAvailable(" ".join(errors[-1].split())[:200])


def python_of(version: str) -> str:
    """A Python of that version: one of pyenv's, or `python3.X` on the PATH. Raises NotAvailable."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    pyenv = sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)
    # A shim of pyenv is on the PATH for each version, and fails.
    python = next(iter(pyenv), None) or shutil.which(f"python{version}")
    if python is None:
        raise NotAvailable(f"no python{version} on the PATH or in {root / 'versions'}")
    return str(python)


def environment_of(cell: Cell, wheel: Path, folder: Path) -> Path:
    """The Python of a cell, with the wheel installed. Raises NotAvailable."""
    if cell.python is None:
        return Path(sys.executable)
    home = folder / cell.name.replace(" ", "-")
    python = home / "bin" / "python"
    install(folder, python_of(cell.python), "-m", "venv", "--without-pip", home)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    install(folder, *pip, f"{wheel}[demo]", *cell.packages)
    return python


def tried(cell: Cell, wheel: Path, folder: Path) -> Result:
    """Run the steps of a cell."""
    say(f"{cell.name}: making its environment")
    try:
        python = environment_of(cell, wheel, folder)
    except NotAvailable as reason:
        return Result(cell, f"not available here: {reason}")
    result = Result(cell, run([python, "-c", VERSIONS], folder, os.environ, 60.0)[1][-1])
    environ = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON} | dict(cell.environ)
    environ["PATH"] = f"{python.parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
    # The jars of brokers are fetched anew, once for all cells.
    environ |= {"SAMZAPY_CACHE": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    for step in cell.steps:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            result.steps[step.name] = outcome(step, Path(place), environ)
        say(f"  {step.name}: {result.steps[step.name]}")
    return result


def outcome(step: Step, place: Path, environ: Mapping[str, str]) -> str:
    """Run a step; returns the counts of a test run, else whether it succeeded."""
    names = {"{root}": str(ROOT), "{folder}": str(place), "{port}": str(free_port())}
    command = [re.sub(r"\{\w+\}", lambda match: names[match[0]], part) for part in step.command]
    good, lines = run(command, place, environ, step.limit_s)
    good &= step.shows in "\n".join(lines)
    if not good:
        say("    " + "\n    ".join(lines[-30:]))
    counts = ", ".join(f"{number} {what}" for number, what in COUNTS.findall(lines[-1]))
    return (counts or "ok") if good else f"FAILED: {counts or lines[-1]}"


def markdown(results: Sequence[Result]) -> str:
    """The table of all cells, a row per cell."""
    names = list(dict.fromkeys(name for result in results for name in result.steps))
    rows = [["cell", "versions", *names], ["---"] * (len(names) + 2)]
    rows += [[result.cell.name, result.versions, *(result.steps.get(name, "") for name in names)] for result in results]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Try the cells and show them; the exit code: 0 unless a step failed. Cells that are not available do not count."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description="Try the versions side by side.")
    parser.add_argument("--only", action="append", metavar="TEXT", help="only cells with this text in their name")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table there, as Markdown")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the environments there, and keep them")
    options = parser.parse_args()
    cells = [cell for cell in CELLS if any(text in cell.name for text in options.only or [""])]
    if not cells:
        parser.error(f"--only: expected a part of {', '.join(cell.name for cell in CELLS)}")
    with tempfile.TemporaryDirectory(prefix="samzapy-matrix-") as temporary:
        folder = (options.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        install(folder, sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
        wheel = max(folder.glob("samzapy-*.whl"))
        results = [tried(cell, wheel, folder) for cell in cells]
    table = markdown(results)
    sys.stdout.write(table)
    if options.table is not None:
        options.table.write_text(table, "utf-8")
    return int(any(words.startswith("FAILED") for result in results for words in result.steps.values()))


if __name__ == "__main__":
    sys.exit(main())
