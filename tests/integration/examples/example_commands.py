"""The commands that the job files, the README and the docs give for the examples, to be run as they are written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parents[3]
CONFIGS = PROJECT / "configs"
_REMARK = re.compile(r"\s{2,}\(.*\)$")
#: The pages, in the order in which somebody reads them.
PAGES = (
    "README.md",
    "docs/tutorial/first-job.md",
    "docs/tutorial/state.md",
    "docs/tutorial/kafka.md",
    "docs/how-to/write/tasks.md",
    "docs/explanation/state.md",
    "docs/how-to/write/dataframes.md",
    "docs/explanation/guarantees.md",
    "docs/how-to/write/windows.md",
    "docs/how-to/write/joins.md",
    "docs/how-to/write/inputs.md",
    "docs/how-to/write/event-time.md",
    "docs/how-to/write/testing.md",
    "docs/how-to/operate/running.md",
    "docs/how-to/gallery.md",
)
#: Of the pages' commands: these are about a job that is running, or that has not run yet.
_OF_THEIR_OWN = re.compile(r"samzapy (drain|check) |planes_by_batch")
#: The shell's own words for `samzapy` and `python` add what the user would add to each command.
_PROLOGUE = """
set -euo pipefail
samzapy() { command samzapy "$@" $K; }
python() { case "$*" in *.properties*) command python "$@" $K;; *) command python "$@";; esac; }
sqlite3() { command python -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())' "$@"; }
set -v
"""


def job_names() -> list[str]:
    """The job files with commands of their own, by their paths in `configs`."""
    paths = chain(CONFIGS.glob("*.properties"), (CONFIGS / "gallery").glob("*.properties"))
    return sorted(str(path.relative_to(CONFIGS).with_suffix("")) for path in paths)


def commands_of_file(name: str) -> list[str]:
    """The lines that a job file has at its top for the shell."""
    text = (CONFIGS / f"{name}.properties").read_text()
    head = text[: text.index("\n\n")].splitlines() if "\n\n" in text else text.splitlines()
    lines = [line[4:] for line in head if line.startswith("#   ")]
    return [_REMARK.sub("", line) for line in lines if not line.lstrip().startswith("--config")]


def commands_of_pages(name: str) -> list[str]:
    """The pages' commands about a job that are not in its file: to be run after those."""
    known = {_plain(line) for line in commands_of_file(name)}
    lines = [line.strip().removeprefix("$ ") for line in _shown()]
    about = re.compile(rf"^(samzapy|python) .*configs/{name}\.properties")
    found = [line for line in lines if about.match(line) and not _OF_THEIR_OWN.search(line)]
    return [line for line in dict.fromkeys(found) if _plain(line) not in known]


def _shown() -> Iterator[str]:
    """The pages' lines inside fences, and those that are set off by four spaces."""
    inside = False
    for line in chain.from_iterable((PROJECT / page).read_text().splitlines() for page in PAGES):
        if line.startswith("```"):
            inside = not inside
        elif inside or line.startswith("    "):
            yield line


def _plain(line: str) -> str:
    """Without the overrides, remarks and pipes that a page shows beside a command."""
    return re.sub(r"\s+(\$K|#.*|\|.*)(?=\s|$)", "", line).strip()


def run_commands(lines: list[str], folder: Path, overrides: Mapping[str, str]) -> str:
    """Run the lines as one shell script in `folder`; returns what they print. Raises AssertionError at the first that
    fails."""
    if not (folder / "configs").exists():
        shutil.copytree(CONFIGS, folder / "configs")
    added = " ".join(f"--config {key}={value}" for key, value in overrides.items())
    environment = {**os.environ, "K": added, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-s"],
        input=_PROLOGUE + "\n".join(lines) + "\n",
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, f"exit code {done.returncode}:\n{done.stderr[-4000:]}\n{done.stdout[-2000:]}"
    return done.stdout
