"""`samzapy examples`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from samzapy.config.loader import load_job

CONFIGS = Path(__file__).parents[4] / "configs"
NAMES = sorted(path.stem for folder in (CONFIGS, CONFIGS / "gallery") for path in folder.glob("*.properties"))


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """The modules of a copy are not there for the next one."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in set(sys.modules) - before:
        if "." not in name:
            del sys.modules[name]


def test_every_job_of_the_docs_is_listed_with_one_sentence(samzapy):
    code, output, _ = samzapy("examples", "list")
    rows = dict(line.split(maxsplit=1) for line in output.splitlines()[2:] if line)
    assert code == 0
    assert sorted(rows) == NAMES
    assert rows["visits"] == "Groups page views into visits: session windows over event time, by user"


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_has_its_own_code_and_a_job_file_without_problems(samzapy, tmp_path, name):
    code, output, errors = samzapy("examples", "copy", name)
    assert code == 0, errors
    job, modules = tmp_path / name / f"{name}.properties", list((tmp_path / name).glob("*.py"))
    text = job.read_text()
    assert modules
    assert "configs/" not in text
    assert not re.search(r"=.*samzapy\.examples", text), "the keys name modules of the copy"
    assert f"samzapy run {name}.properties --until-end" in output
    assert load_job(job, strict=True).warnings == ()


def test_an_unknown_name_and_a_second_copy_are_refused_in_one_line(samzapy):
    code, output, errors = samzapy("examples", "copy", "visit")
    assert (code, output) == (2, "")
    assert errors.startswith("error: NAME: expected one of page-views, ")
    assert errors.endswith(", got 'visit'\n")
    samzapy("examples", "copy", "visits")
    assert samzapy("examples", "copy", "visits")[::2] == (2, "error: NAME: visits exists already\n")
