"""Modules that this process has loaded in place of those that a job takes from beside its file."""

import sys
from importlib import import_module
from types import ModuleType
from zipfile import ZipFile

import pytest
from jobs.page_view_job import page_view_job

from samzapy.config.loader import load_job
from samzapy.container.tasks.task_class import load_task_class
from samzapy.errors import ConfigError
from samzapy.runner.launch import checked
from samzapy.runner.local import LocalRunner

TASK = '''
import samzapy
{more}
class Task(samzapy.StreamTask):
    """Of {name}."""
    def process(self, envelope, collector, coordinator):
        pass
'''


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Writes modules to a folder with a job file, and forgets the modules afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def write(folder, *modules, name=None, more="", **others):
        folder = tmp_path / folder
        for module in modules:
            path = folder / f"{module.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TASK.format(name=name or folder.name, more=more))
        for module, text in others.items():
            (folder / f"{module}.py").write_text(text)
        (folder / "job.properties").write_text(page_view_job(folder.name, task__class=f"{modules[0]}:Task"))
        return folder

    yield write
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) is None or str(tmp_path) in str(sys.modules[module].__file__):
            del sys.modules[module]


def task_of(folder):
    """Import the code of a job and check it, as a start does: what its task tells of itself."""
    config, *_ = checked(load_job(folder / "job.properties"), LocalRunner)
    return load_task_class(config.task.task_class).__doc__


def refusal_of(folder):
    with pytest.raises(ConfigError) as refused:
        task_of(folder)
    return str(refused.value)


def hides(name, hiding, hidden):
    return (
        f"{name}: this process has loaded {hiding}, which hides {hidden}: give this file another name, or run the job in a "
        "process of its own"
    )


def test_a_second_job_of_a_process_does_not_run_with_the_module_of_the_first(code):
    first, second = code("first", "same_tasks"), code("second", "same_tasks")
    assert task_of(first) == "Of first."
    assert refusal_of(second) == hides("same_tasks", first / "same_tasks.py", second / "same_tasks.py")
    assert task_of(first) == "Of first."


def test_modules_that_the_jobs_classes_import_are_not_those_of_another_job_either(code):
    more = "import same_helpers\n"
    first = code("first", "first_tasks", more=more, same_helpers="LIMIT = 1\n")
    second = code("second", "second_tasks", more=more, same_helpers="LIMIT = 2\n")
    task_of(first)
    assert refusal_of(second) == hides("same_helpers", first / "same_helpers.py", second / "same_helpers.py")
    (second / "same_helpers.py").write_text("LIMIT = 1\n")
    assert task_of(second) == "Of second."


@pytest.mark.parametrize("package", ["same_pack/__init__.py", None])
def test_modules_of_packages_of_one_name_are_told_apart(code, package):
    first, second = code("first", "same_pack.tasks"), code("second", "same_pack.tasks")
    for folder in (first, second):
        if package:
            (folder / package).touch()
    task_of(first)
    hidden = package or "same_pack/tasks.py"
    assert refusal_of(second) == hides("same_pack", first / hidden, second / hidden)


def test_a_module_of_the_program_that_hides_one_beside_the_job_file_is_refused(code, monkeypatch):
    first, second = code("first", "same_tasks"), code("second", "same_tasks")
    monkeypatch.setattr(sys, "path", [str(first), *sys.path])
    assert "same_tasks: this process has loaded" in refusal_of(second)


def test_a_module_of_any_class_of_the_job_is_told_if_the_program_hides_it(code, monkeypatch):
    text = "from samzapy.serializers.primitives import StringSerde\n\nclass Own(StringSerde):\n    pass\n"
    first = code("first", "first_tasks", same_serdes=text)
    second = code("second", "second_tasks", same_serdes=f"{text}\nSECOND = True\n")
    keys = "serializers.registry.own.class=same_serdes:Own\nstores.counts.key.serde=own\n"
    with (second / "job.properties").open("a") as file:
        file.write(keys)
    monkeypatch.setattr(sys, "path", [str(first), *sys.path])
    assert refusal_of(second) == hides("same_serdes", first / "same_serdes.py", second / "same_serdes.py")


def test_an_installed_module_may_stand_for_one_beside_the_job_file(code, tmp_path, monkeypatch):
    job = code("job", "own_package")
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "own_package.py").write_text(TASK.format(name="installed", more=""))
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    assert task_of(job) == "Of installed."


@pytest.mark.parametrize("hidden", ["conftest", "tests", "same_tools"])
def test_a_module_of_the_program_may_have_the_name_of_a_file_that_the_job_does_not_import(
    code, tmp_path, monkeypatch, hidden
):
    program, job = tmp_path / "program", code("job", "job_tasks", **{hidden: "NAME = 'job'\n"})
    program.mkdir()
    (program / f"{hidden}.py").write_text("NAME = 'program'\n")
    module = ModuleType(hidden)
    module.__file__ = str(program / f"{hidden}.py")
    monkeypatch.setitem(sys.modules, hidden, module)
    assert task_of(job) == "Of job."


IMPORTS = {
    "in a function": "def later():\n    import same_helpers\n",
    "of a name": "from same_helpers import LIMIT\n",
    "by name": "import importlib\nimportlib.import_module('same_helpers')\n",
    "by another module": "import same_between\n",
}


@pytest.mark.parametrize("more", IMPORTS.values(), ids=IMPORTS)
def test_every_import_of_a_job_counts_wherever_it_is(code, monkeypatch, more):
    between = "from same_helpers import LIMIT\n"
    job = code("job", "job_tasks", more=more, same_helpers="LIMIT = 2\n", same_between=between)
    other = code("other", "other_tasks", more="import same_helpers\n", same_helpers="LIMIT = 1\n")
    task_of(other)
    assert refusal_of(job) == hides("same_helpers", other / "same_helpers.py", job / "same_helpers.py")


def test_relative_imports_in_a_package_count(code):
    for name in ("first", "second"):
        folder = code(name, "same_pack.tasks", name="same", more="from .inner import limits\n")
        (folder / "same_pack" / "inner").mkdir()
        (folder / "same_pack" / "inner" / "limits.py").write_text(f"NAME = {name!r}\n")
        if name == "first":
            task_of(folder)
        else:
            assert "inner/limits.py, which hides " in refusal_of(folder)


def test_a_job_does_not_hide_a_module_that_an_earlier_job_has_yet_to_import(code):
    lazy = "def later():\n    import same_helpers\n    return same_helpers.LIMIT\n"
    first = code("first", "first_tasks", more=lazy, same_helpers="LIMIT = 1\n")
    second = code("second", "second_tasks", same_helpers="LIMIT = 2\n")
    task_of(first)
    assert refusal_of(second) == (
        f"same_helpers: another job of this process has yet to import {first / 'same_helpers.py'}, which "
        f"{second / 'same_helpers.py'} hides: give this file another name, or run the job in a process of its own"
    )
    assert sys.modules["first_tasks"].later() == 1
    # The name is taken now, and the second job does not use it.
    assert task_of(second) == "Of second."


@pytest.mark.parametrize("package", ["", "/__init__"])
def test_a_shipped_archive_does_not_hide_one_either_unless_it_has_the_same_file(code, package):
    lazy = "def later():\n    import same_helpers\n"
    first, second = code("first", "first_tasks", more=lazy), code("second", "second_tasks")
    (first / "same_helpers").mkdir()
    helpers = first / f"same_helpers{package}.py"
    helpers.write_text("LIMIT = 1\n")
    archive = second / "shipped.zip"
    with (second / "job.properties").open("a") as file:
        file.write(f"job.spark.py.files={archive}\n")
    with ZipFile(archive, "w") as zipped:
        zipped.writestr(f"same_helpers{package}.py", "LIMIT = 2\n")
    task_of(first)
    told = f"another job of this process has yet to import {helpers}, which {archive}/same_helpers{package}.py hides"
    assert told in refusal_of(second)
    with ZipFile(archive, "w") as zipped:
        zipped.writestr(f"same_helpers{package}.py", "LIMIT = 1\n")
    assert task_of(second) == "Of second."


def test_a_module_that_the_program_itself_finds_first_is_not_hidden(code, monkeypatch):
    first = code("first", "first_tasks", more="def later():\n    import same_helpers\n", same_helpers="LIMIT = 1\n")
    second = code("second", "second_tasks", same_helpers="LIMIT = 2\n")
    monkeypatch.setattr(sys, "path", [str(first), *sys.path])
    task_of(first)
    assert task_of(second) == "Of second."


def test_a_refused_job_leaves_the_import_path_as_it_was(code):
    first, second = code("first", "same_tasks"), code("second", "same_tasks")
    task_of(first)
    before = list(sys.path)
    refusal_of(second)
    assert sys.path == before


def test_a_job_finds_its_own_modules_before_those_of_earlier_jobs(code):
    first = code("first", "first_tasks", later="NAME = 'first'\n")
    second = code("second", "second_tasks", later="NAME = 'second'\n")
    task_of(first)
    task_of(second)
    assert import_module("later").NAME == "second"
