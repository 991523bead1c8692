"""Makes the environment of a cell: finds its Python on this machine, and installs the wheel of the tree and what tests
need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.matrix.cells import Cell
from tests.matrix.commands import NotAvailable, run

_LONGEST_INSTALL_S = 900.0
#: What the installed versions are asked with.
_VERSIONS = """
import sys
from importlib.metadata import version
print("Python %d.%d.%d, pyspark %s" % (*sys.version_info[:3], version("pyspark")))
"""


@dataclass(frozen=True)
class MadeEnvironment:
    """The folder with `python`, `samzapy` and the like, and the versions in it."""

    programs: Path
    versions: str


def built_wheel(root: Path, folder: Path) -> Path:
    """The wheel of the tree. Raises NotAvailable."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(root)]
    done = run(pip, folder, os.environ, _LONGEST_INSTALL_S)
    found = sorted(folder.glob("samzapy-*.whl"))
    if done.code or not found:
        raise NotAvailable(f"no wheel: {done.last_line}")
    return found[0]


def python_of(version: str) -> Path:
    """A Python of that version: `python3.X` on the PATH, or one of pyenv's. Raises NotAvailable."""
    places = [*filter(None, [shutil.which(f"python{version}")])]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    places += [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)]
    for place in places:
        asked = subprocess.run(
            [place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.stdout.strip() == version:
            return Path(place)
    raise NotAvailable(f"no python{version} on the PATH or in {root / 'versions'}")


def made(cell: Cell, wheel: Path, folder: Path) -> MadeEnvironment:
    """The environment of a cell, below `folder`. Raises NotAvailable."""
    if cell.python is None:
        python = Path(sys.executable)
    else:
        home = folder / cell.name.replace(" ", "-")
        python = home / "bin" / "python"
        _install(cell, python_of(cell.python), wheel, home)
    asked = run([str(python), "-c", _VERSIONS], folder, os.environ, 60.0)
    return MadeEnvironment(python.parent, asked.last_line)


def _install(cell: Cell, base: Path, wheel: Path, home: Path) -> None:
    python = home / "bin" / "python"
    commands = [
        [str(base), "-m", "venv", "--without-pip", str(home)],
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", f"{wheel}[demo]", *cell.packages],
    ]
    for command in commands:
        done = run(command, home.parent, os.environ, _LONGEST_INSTALL_S)
        if done.code:
            errors = [line for line in done.output.splitlines() if line.startswith("ERROR")]
            raise NotAvailable(" ".join((errors or [done.last_line])[-1].split())[:200])
