"""The matrix of versions: its cells name tests that exist, and its table says what came of each."""

import sys
from pathlib import Path

import pytest

from tests.matrix.cells import CELLS, ON_A_BROKER, SHORT, THOROUGH, Cell, Step
from tests.matrix.commands import TIMED_OUT, Done, NotAvailable, run
from tests.matrix.environments import python_of
from tests.matrix.report import Result, markdown, outcome

ROOT = Path(__file__).parents[3]


def test_every_test_that_a_cell_runs_exists():
    words = {word for step in (*SHORT, *THOROUGH, *ON_A_BROKER) for word in step.command}
    files = [word.replace("{root}", str(ROOT)) for word in words if word.endswith(".py")]
    assert files
    assert not [file for file in files if not Path(file).is_file()]


def test_the_cells_have_names_of_their_own_and_each_broker_is_one_that_can_start():
    from samzapy.devkafka.runtime import chosen_version

    assert len({cell.name for cell in CELLS}) == len(CELLS)
    versions = [dict(cell.environ).get("SAMZAPY_KAFKA_VERSION") for cell in CELLS]
    assert [chosen_version(version) for version in versions if version]


def test_the_oldest_and_the_newest_python_that_pyproject_names_are_in_it():
    pythons = {cell.python for cell in CELLS}
    text = (ROOT / "pyproject.toml").read_text()
    named = {line.split(":: ")[2].rstrip('",') for line in text.splitlines() if "Python :: 3." in line}
    oldest, newest = (choose(named, key=lambda version: int(version[2:])) for choose in (min, max))
    assert {oldest, newest} <= pythons
    assert f'requires-python = ">={oldest}"' in text


@pytest.mark.parametrize(
    ("code", "last", "good", "text"),
    [
        (0, "12 passed, 3 skipped in 7.00s", True, "12 passed, 3 skipped"),
        (1, "1 failed, 12 passed in 7.00s", False, "FAILED: 1 failed, 12 passed"),
        (0, "stopped", True, "ok"),
        (3, "error: no", False, "FAILED: exit code 3"),
        (TIMED_OUT, "3 passed", False, "TIMED OUT after 7 s"),
    ],
)
def test_a_step_is_summed_up_by_its_tests_or_its_end(code, last, good, text):
    assert outcome(Done(code, f"...\n{last}\n\n", 7.0), good=good) == text


def test_the_table_has_a_row_for_each_cell_and_the_reason_of_one_that_could_not_be_tried():
    tried, absent = Cell("a", (Step("demo", ("x",)),)), Cell("b", (Step("other", ("x",)),))
    results = [Result(tried, "Python 3.11", {"demo": "ok"}, 3.2), Result(absent, "not available here: no python9")]
    assert markdown(results).splitlines() == [
        "| cell | versions | demo | s |",
        "| --- | --- | --- | --- |",
        "| a | Python 3.11 | ok | 3 |",
        "| b | not available here: no python9 |  |  |",
    ]


def test_a_python_is_found_by_what_it_says_of_itself(tmp_path, monkeypatch):
    (tmp_path / "python9.9").write_text("#!/bin/sh\necho 3.1\n")
    (tmp_path / "python9.9").chmod(0o755)
    home = tmp_path / "versions" / "9.9.4" / "bin"
    home.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(NotAvailable, match=r"no python9\.9 on the PATH or in "):
        python_of("9.9")
    (home / "python").write_text("#!/bin/sh\necho 9.9\n")
    (home / "python").chmod(0o755)
    assert python_of("9.9") == home / "python"


def test_a_command_that_runs_into_its_limit_is_ended(tmp_path):
    stuck = [sys.executable, "-c", "import threading; print('on', flush=True); threading.Event().wait()"]
    done = run(stuck, tmp_path, {}, 1.0)
    assert (done.code, done.last_line) == (TIMED_OUT, "on")
