"""`samzapy init`."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from samzapy.config.loader import load_job

toml = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

FILES = [
    ".gitignore",
    ".samzapy",
    "README.md",
    "hello.properties",
    "hello.py",
    "input.tsv",
    "pyproject.toml",
    "test_hello.py",
]
LONGEST = "a" * 40
OPTIONS = [(), ("--typed",), ("--pipeline",)]


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """The module of a project is not there for the next one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("hello", None)


def listed(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


@pytest.mark.parametrize("options", OPTIONS)
def test_a_project_has_a_job_its_tests_and_its_input(samzapy, tmp_path, options):
    code, output, _ = samzapy("init", "hello", *options)
    assert code == 0
    assert listed(tmp_path / "hello") == FILES
    assert output.splitlines() == [
        "created hello, with 6 messages in local.hello-input; now:",
        "  cd hello",
        "  pytest",
        "  samzapy run hello.properties --until-end",
        "  samzapy topic read local.hello-counts --job hello.properties",
    ]


@pytest.mark.parametrize("options", OPTIONS)
def test_its_job_file_has_no_problem_and_no_unknown_key(samzapy, tmp_path, options):
    samzapy("init", "hello", *options)
    assert load_job(tmp_path / "hello" / "hello.properties", strict=True).warnings == ()


@pytest.fixture
def counted(samzapy, tmp_path, monkeypatch):
    """Makes a project and runs its job; the number of messages, the pairs that it has sent, and those of its input."""

    def run(*options):
        samzapy("init", "hello", *options)
        monkeypatch.chdir(tmp_path / "hello")
        code, output, errors = samzapy("run", "hello.properties", "--until-end", "--runner", "local", "--strict")
        assert code == 0, errors
        _, sent, _ = samzapy("topic", "read", "local.hello-counts", "--job", "hello.properties")
        lines = [line.split("\t") for line in Path("input.tsv").read_text().splitlines()]
        records = [json.loads(line) for line in sent.splitlines()]
        return int(output.split()[0]), [(each["key"], each["message"]) for each in records], lines

    return run


@pytest.mark.parametrize("options", [(), ("--typed",)])
def test_its_job_runs_as_it_was_made_and_counts_its_input(counted, options):
    count, sent, lines = counted(*options)
    visitors = [visitor for visitor, _ in lines]
    counts = sorted((name, message["visits"]) for name, message in sent)
    assert count == len(lines)
    assert counts == sorted((name, visitors[: at + 1].count(name)) for at, name in enumerate(visitors))


def test_its_pipeline_runs_as_it_was_made_and_counts_by_page(counted):
    count, sent, lines = counted("--pipeline")
    pages = [json.loads(message)["page"] for _, message in lines]
    assert count == 2 * len(lines), "each message goes through the stream between the steps"
    assert {page: total["visits"] for page, total in dict(sent).items()} == Counter(pages)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Hello", "a name is 1 to 40 of a-z 0-9 _, a letter first: it becomes a Python module"),
        ("1st", "a name is 1 to 40"),
        ("my-job", "a name is 1 to 40"),
        ("../up", "a name is 1 to 40"),
        ("", "a name is 1 to 40"),
        (LONGEST + "a", "a name is 1 to 40"),
        ("class", "a keyword of Python cannot be a module"),
        ("json", "Python has a module of that name already"),
        ("samzapy", "Python has a module of that name already"),
        ("pytest", "Python has a module of that name already"),
        ("hello_", "pip installs no project with a _ at the end of its name"),
        ("setup", "pip would run the task's module as the script that installs the project"),
        ("test_it", "pytest would mistake the task's module for a test"),
        ("conftest", "pytest would mistake the task's module for a test"),
    ],
)
def test_a_name_that_cannot_be_the_tasks_module_is_refused_in_one_line(samzapy, tmp_path, name, why):
    code, output, errors = samzapy("init", "--", name)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert f"NAME: {why}" in errors
    assert errors.endswith(f"got {name!r}\n")
    assert listed(tmp_path) == []


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_what_exists_is_not_overwritten(samzapy, tmp_path, make):
    make(tmp_path / "hello")
    code, _, errors = samzapy("init", "hello")
    assert (code, errors) == (2, "error: NAME: hello exists already\n")
    assert listed(tmp_path) == ["hello"]
    assert (tmp_path / "hello").is_file() or listed(tmp_path / "hello") == []


def test_a_project_that_cannot_be_finished_leaves_nothing_behind(samzapy, tmp_path, monkeypatch):
    monkeypatch.setattr("samzapy.cli.commands.init._FILES", {"task.py.txt": "$name.py", "missing.txt": "x"})
    code, _, _ = samzapy("init", "hello")
    assert code == 3
    assert listed(tmp_path) == []
