"""The search for changes that no test notices, on a package of one function."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.mutants.kept import MUTANTS
from tests.mutants.trial import Mutant, check, run

TESTS = """
from thing import larger

def test_the_larger_of_two_is_found():
    assert larger(1, 2) == 2
"""


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "__init__.py").write_text("def larger(a, b):\n    return a if a > b else b\n")
    (tmp_path / "test_thing.py").write_text(TESTS)
    return tmp_path


def tried(tree, *changes, **options):
    """The exit code, and what is said."""
    lines = []
    mutants = [Mutant("thing/__init__.py", old, new, ("test_thing.py",)) for old, new in changes]
    before = (tree / "thing" / "__init__.py").read_text()
    code = run(tree, mutants, lines.append, **options)
    assert (tree / "thing" / "__init__.py").read_text() == before
    return code, "\n".join(lines)


def test_a_change_that_the_tests_notice_is_fine(tree):
    code, said = tried(tree, ("a > b", "a < b"), ("else b", "else a"))
    assert code == 0
    assert "2 of 2 changes were noticed" in said


@pytest.mark.slow
def test_a_change_that_survives_fails_the_run_and_is_shown(tree):
    code, said = tried(tree, ("a > b", "a < b"), ("a > b", "a >= b"))
    assert code == 1
    assert "1 of 2 changes were noticed" in said
    assert "SURVIVED" in said


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("a > c", "a < c"), "thing/__init__.py: expected once, found 0 times: 'a > c'"),
        (("b", "a"), "found 3 times: 'b'"),
        (("a > b", "a > b"), "changes nothing"),
    ],
)
def test_a_text_that_is_gone_or_ambiguous_is_named_and_nothing_is_run(tree, change, reason):
    code, said = tried(tree, change)
    assert code == 1
    assert reason in said
    assert "noticed" not in said


def test_tests_that_fail_without_a_change_say_nothing_about_one(tree):
    (tree / "test_thing.py").write_text(TESTS.replace("== 2", "== 3"))
    code, said = tried(tree, ("a > b", "a < b"))
    assert code == 1
    assert "without a change the tests do not pass" in said
    assert "assert 2 == 3" in said


@pytest.mark.slow
def test_a_change_that_never_ends_is_noticed_by_the_clock(tree):
    code, said = tried(tree, ("return a if", "\n    while True: pass\n    return a if"), limit_s=5.0)
    assert code == 0
    assert "killed by the time limit" in said


def test_a_change_that_cannot_even_be_imported_says_nothing(tree):
    assert "0 of 1 changes were noticed" in tried(tree, ("return a", "return return a"))[1]


def test_a_list_without_changes_is_no_success(tree):
    assert tried(tree)[0] == 1


def test_every_kept_change_can_be_made_in_one_place():
    check(Path(__file__).parents[3], MUTANTS)
