"""What becomes of a module of the user that cannot be imported, or is not the one that is meant."""

import itertools
import sys

import pytest

from samzapy.plugins import PluginError, import_also_from, load_class

_numbers = itertools.count()


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Writes a module to a folder at the end of the import path, as the modules beside a job file are."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    import_also_from([str(tmp_path)])
    made = []

    def write(text, name=None):
        module = name or f"beside_{next(_numbers)}"
        path = tmp_path / f"{module.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        made.append(module)
        return module, path

    yield write
    for module in made:
        if module.startswith("beside_"):
            sys.modules.pop(module, None)


def refusal(path):
    with pytest.raises(PluginError) as caught:
        load_class(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("import os\n\n1 / 0\n", "ZeroDivisionError: division by zero", 3),
        ("import no_such_library\n", "ModuleNotFoundError: No module named 'no_such_library'", 1),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", 2),
        ("import asyncio\nraise asyncio.CancelledError('late')\n", "CancelledError: late", 2),
        ("raise ValueError('two\\nlines')\n", "ValueError: two lines", 1),
        ("import json\n\n\njson.loads('{')\n", "JSONDecodeError: Expecting property name", 4),
    ],
)
def test_a_module_that_raises_is_named_with_the_line_of_the_users_code(beside, text, reason, line):
    module, path = beside(text)
    found = refusal(f"{module}:Task")
    assert found.startswith(f"cannot import {module} ({reason}")
    assert found.endswith(f", at {path}:{line})")
    assert len(found.splitlines()) == 1


def test_what_a_module_prints_goes_to_standard_error(beside, capsys):
    module, _ = beside("print('imported')\nclass Task: pass\npipeline = Task()\n")
    load_class(f"{module}:Task")
    assert capsys.readouterr() == ("", "imported\n")
    assert refusal(f"{module}:pipelin").endswith("did you mean pipeline?")


def test_a_syntax_error_has_its_line_once(beside):
    module, path = beside("class Task:\n    def process(self:\n")
    found = refusal(f"{module}:Task")
    assert found.startswith(f"cannot import {module} (SyntaxError: ")
    assert found.endswith(f"({path.name}, line 2))")


def test_modules_that_import_one_another_are_named_with_the_line(beside):
    first, path = beside("import beside_cycle\nclass Task: ...\n")
    beside(f"from {first} import Task\n", "beside_cycle")
    assert refusal(f"{first}:Task").endswith(f", at {path.with_name('beside_cycle.py')}:1)")


def test_a_missing_module_has_no_line():
    assert refusal("beside_nothing:Task") == (
        "cannot import beside_nothing (ModuleNotFoundError: No module named 'beside_nothing'); "
        "a job's modules are next to its file, in job.spark.py.files or on PYTHONPATH"
    )


@pytest.mark.parametrize("name", ["types", "json", "email", "time"])
def test_a_module_that_one_of_python_hides_is_named(beside, name):
    _, path = beside("class Task: ...\n", name)
    found = refusal(f"{name}:Task")
    assert found.startswith(f"{name} has no Task; that is ")
    assert found.endswith(f", which hides {path}: give this file another name")


def test_a_class_that_is_missing_in_the_only_module_of_the_name_has_no_such_hint(beside):
    module, _ = beside("class Tusk: ...\n")
    assert refusal(f"{module}:Task") == f"{module} has no Task; did you mean Tusk?"


def test_the_name_of_a_file_in_place_of_a_module_is_corrected(beside):
    module, _ = beside("class Task: ...\n")
    assert refusal(f"{module}.py:Task").endswith(f"; a module is named without .py: {module}:Task")
