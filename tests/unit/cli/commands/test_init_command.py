"""`samzapy init`."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from samzapy.config.loader import load_job

toml = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")

FILES = ".gitignore .samzapy README.md generate.py hello.properties hello.py pyproject.toml test_hello.py"
LONGEST = "a" * 40
KINDS = ["count", "windows", "join", "batch", "pipeline", "cdc"]
PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"
TEMPLATES = PYPROJECT.parent / "samzapy" / "cli" / "templates"
#: The lines of a README that print results.
SHOWS = "    samzapy (topic read|store scan|checkpoint show)"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """The module of a project is not there for the next one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("hello", None)


def listed(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


@pytest.fixture
def project(samzapy, tmp_path, monkeypatch, kind):
    """The folder of a new project, which becomes the working folder; and what the command has printed."""
    code, output, errors = samzapy("init", "hello", "--template", kind)
    assert code == 0, errors
    monkeypatch.chdir(tmp_path / "hello")
    return tmp_path / "hello", output.splitlines()


def tool(*command):
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["count"])
def test_a_project_has_a_job_its_tests_and_its_input(project):
    folder, printed = project
    assert " ".join(listed(folder)) == FILES
    assert printed == [
        "created hello, with 1,000 messages of input; now:",
        "  cd hello",
        "  python -m pytest",
        "  samzapy run hello.properties --until-end",
        "  samzapy topic read local.hello-counts --max 3 --job hello.properties",
    ]
    done = subprocess.run([sys.executable, "generate.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python generate.py STREAM, one of hello-visits\n")


def test_the_templates_are_those_of_the_folder_and_of_the_help(samzapy):
    assert sorted(KINDS) == sorted(each.name for each in TEMPLATES.iterdir() if each.is_dir())
    assert [line.split()[0] for line in samzapy("init", "--help")[1].splitlines()[4:10]] == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_projects_own_tests_pass(project):
    assert " passed" in tool("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.mark.slow
def test_the_code_of_all_templates_is_formatted_linted_and_typed(samzapy, tmp_path, monkeypatch):
    for kind in KINDS:
        assert samzapy("init", f"a_{kind}", "--template", kind)[0] == 0
        (tmp_path / f"a_{kind}" / "generate.py").rename(tmp_path / f"a_{kind}" / f"generate_{kind}.py")
    monkeypatch.chdir(tmp_path)
    tool("ruff", "format", "--check", "--config", str(PYPROJECT), ".")
    tool("ruff", "check", "--config", str(PYPROJECT), "--ignore", "D100,D103,INP001,PLR2004", ".")
    tool("mypy", "--strict", *(f"a_{kind}" for kind in KINDS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_runs_as_it_was_made_and_its_commands_show_the_results(samzapy, project, kind):
    folder, printed = project
    assert load_job(folder / "hello.properties", strict=True).warnings == ()
    made = int(printed[0].split()[3].replace(",", ""))
    code, output, errors = samzapy("run", "hello.properties", "--until-end", "--runner", "local", "--strict")
    assert code == 0, errors
    # Each message of the pipeline goes through the stream between its steps, too.
    assert int(output.split()[0].replace(",", "")) == made * (2 if kind == "pipeline" else 1)
    read, look = [line.split()[1:] for line in (folder / "README.md").read_text().splitlines() if re.match(SHOWS, line)]
    assert read == printed[-1].split()[1:]
    assert len(samzapy(*read)[1].splitlines()) == 3
    assert len(samzapy(*look)[1].splitlines()) >= 3


@pytest.mark.parametrize("kind", ["windows", "cdc"])
def test_the_readmes_commands_make_the_same_streams_as_init(samzapy, project):
    folder, _ = project
    before = samzapy("topic", "list", "local", "--path", str(folder / ".samzapy" / "local.db"))[1]
    (folder / ".samzapy" / "local.db").unlink()
    lines = (folder / "README.md").read_text().partition("## Begin again")[2].splitlines()
    script = "\n".join(["set -euo pipefail", *(line for line in lines if line.startswith("    "))])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", script], env=environment, check=True, capture_output=True, timeout=100)
    assert samzapy("topic", "list", "local", "--path", str(folder / ".samzapy" / "local.db"))[1] == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Hello", "a name is 1 to 40 of a-z 0-9 _, a letter first: it becomes a Python module"),
        ("", "a name is 1 to 40"),
        (LONGEST + "a", "a name is 1 to 40"),
        ("class", "a keyword of Python cannot be a module"),
        ("json", "Python has a module of that name already"),
        ("samzapy", "Python has a module of that name already"),
        ("pytest", "Python has a module of that name already"),
        ("generate", "the project has a file of that name, which makes its input"),
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


def test_a_pytest_that_this_environment_lacks_is_installed_first(samzapy, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pytest" else found(name))
    assert samzapy("init", "hello")[1].splitlines()[2:4] == ["  python -m pip install pytest", "  python -m pytest"]
