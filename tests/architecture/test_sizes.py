"""The house rules that a linter does not know."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "samzapy").rglob("*.py"))


def test_there_is_something_to_check():
    assert len(MODULES) > 50


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_fits_in_the_head(path):
    assert len(path.read_text().splitlines()) <= 400


def test_no_module_is_a_heap_of_leftovers():
    heaps = {"utils", "util", "common", "helpers", "misc"}
    assert not [path for path in MODULES if heaps & {part.removesuffix(".py") for part in path.parts}]
