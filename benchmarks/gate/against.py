"""The same workloads with an earlier commit's samzapy, in turns with this one's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.gate.changes import Change
from benchmarks.reporting.results import Spread
from benchmarks.workloads.base import ROOT, Workload
from benchmarks.workloads.turns import Runner, Say, take_turns
from samzapy.bench.measuring import Measurement, Program
from samzapy.errors import EnvironmentFailure

HERE, THERE = "here", "there"


def last_release(folder: Path = ROOT) -> str:
    """The newest tag of the commit that is checked out in a folder; before the first release, the commit where its
    branch left main. Raises EnvironmentFailure if there is neither."""
    for command in (["describe", "--tags", "--abbrev=0"], ["merge-base", "HEAD", "main"]):
        result = subprocess.run(["git", "-C", str(folder), *command], capture_output=True, text=True, check=False)
        if not result.returncode:
            return result.stdout.strip()
    raise EnvironmentFailure("there is no release and no branch main to compare with: name a commit, --against COMMIT")


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Program]:
    """A worktree of a commit below `folder`, with an environment of its own; both are removed afterwards.

    Raises EnvironmentFailure if git does not know the commit, or its requirements cannot be installed.
    """
    tree, environment = folder / "commit", folder / "environment"
    _do(["git", "-C", str(ROOT), "worktree", "add", "--detach", "--quiet", str(tree), commit])
    try:
        _do([sys.executable, "-m", "venv", str(environment)])
        python = environment / "bin" / "python"
        _do([str(python), "-m", "pip", "install", "--quiet", "--editable", str(tree)])
        yield Program(python, tree)
    finally:
        _do(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(tree)])


def _do(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentFailure(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")


def compare(here: Workload, there: Workload, variants: Sequence[str], times: int, say: Say) -> list[Change]:
    """CPU of each of samzapy's variants here over that there, turn by turn. A variant that fails on either side, as one
    that the other commit does not know, is left out with its reason."""
    chosen = [variant for variant in variants if here.runs_samzapy(variant)]
    sides = {HERE: here, THERE: there}
    for workload in sides.values():
        workload.prepare()
    runners = [
        Runner(f"{variant} {side}", workload, variant, times) for variant in chosen for side, workload in sides.items()
    ]
    done = take_turns(runners, say)
    return list(_changes(here.name, chosen, done.repeats))


def _changes(workload: str, variants: Sequence[str], repeats: Mapping[str, Sequence[Measurement]]) -> Iterator[Change]:
    for variant in variants:
        ours, theirs = (repeats.get(f"{variant} {side}") for side in (HERE, THERE))
        if ours and theirs:
            pairs = zip(ours, theirs, strict=True)
            values = [a.cpu_s_per_million / b.cpu_s_per_million for a, b in pairs if b.cpu_s_per_million]
            if values:
                least = [min(run.cpu_s_per_million for run in side) for side in (ours, theirs)]
                yield Change(f"{workload} {variant}", 1.0, Spread.of(values), least[0] / least[1])
