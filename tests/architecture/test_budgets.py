"""No room of the house, and no total, is larger than its budget in `budgets.toml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture import trace
from tests.architecture.facts import PACKAGE, ROOT, in_folders, long_constructors, modules, null_object_types, totals

tomllib = pytest.importorskip("tomllib", reason="part of Python 3.11")

MODULES = modules()
BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8"))
ROOMS = BUDGETS["rooms"]
#: How much of a budget may be unused: a part of it, or a few lines or modules of a small one.
_UNUSED, _FEW = 0.05, 5


def figures() -> dict[str, tuple[int, int]]:
    """Each figure that has a budget, with the budget."""
    found = {name: (figure, BUDGETS["totals"][name]) for name, figure in totals(MODULES).items()}
    for room, budget in ROOMS.items():
        inside = in_folders(MODULES, budget["folders"])
        found[f"lines of {room}"] = (sum(module.lines for module in inside), budget["lines"])
        found[f"modules of {room}"] = (len(inside), budget["modules"])
    return found


def places(names: Iterable[str]) -> dict[str, list[str]]:
    """Where to look for what is above its budget."""
    found = {"long_constructors": long_constructors, "null_object_types": null_object_types}
    return {name: found[name](MODULES) for name in names if name in found}


FIGURES = figures()


def test_nothing_is_larger_than_its_budget():
    above = {name: f"{figure:,}, budget {budget:,}" for name, (figure, budget) in FIGURES.items() if figure > budget}
    assert not above, f"{above}: make it smaller, since a budget is only ever lowered; {places(above)}"


def test_a_budget_shrinks_with_its_room():
    loose = {
        name: f"{figure:,}, budget {budget:,}"
        for name, (figure, budget) in FIGURES.items()
        if budget - figure > max(_FEW, budget * _UNUSED)
    }
    assert not loose, f"lower these in tests/architecture/budgets.toml: {loose}"


def test_every_folder_is_in_one_room():
    named = Counter(folder for room in ROOMS.values() for folder in room["folders"])
    parts = [module.path.relative_to(ROOT / PACKAGE).parts for module in MODULES]
    assert named == Counter({each[0] if len(each) > 1 else "." for each in parts})


@pytest.mark.parametrize("step", [trace.at_start_and_by_messages, trace.by_a_query], ids=lambda step: step.__name__)
def test_a_trace_has_the_modules_of_each_step(step):
    expected = {
        "at a start": "config/job",
        "by a message": "container/run_loop",
        "by a commit": "container/commit_protocol",
        "by a query": "queries/committed",
    }
    assert not [name for name, touched in step() if expected[name] not in touched]
