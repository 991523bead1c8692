import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from samzapy.container.errors.user_failures import task_failed, user_failure, user_line, whole_traceback
from samzapy.errors import SamzapyError
from samzapy.job.lease import LONGEST_TRACEBACK

_CODE = """
import json

def parse(text):
    return json.loads(text)

def process():
    return parse("{")
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's, in a folder of its own on the path."""
    (tmp_path / "tasks").mkdir()
    path = tmp_path / "tasks" / "counts.py"
    path.write_text(_CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    scope = {}
    exec(compile(_CODE, str(path), "exec"), scope)
    return scope


def raised(call):
    with pytest.raises((AttributeError, ValueError)) as caught:
        call()
    return caught.value


def test_the_line_is_the_users_and_not_that_of_the_library_that_raised(module):
    cause = raised(module["process"])
    assert isinstance(cause, json.JSONDecodeError)
    assert user_line(cause) == "tasks/counts.py:5"


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_a_package_of_another_folder_for_packages_is_not_the_users(folder, module, tmp_path):
    scope = {}
    exec(compile("def loads(text):\n    return int(text)", str(tmp_path / folder / "parser.py"), "exec"), scope)
    module["json"] = SimpleNamespace(loads=scope["loads"])
    assert user_line(raised(module["process"])) == "tasks/counts.py:5"


def test_an_exception_that_no_code_of_the_users_has_seen_has_no_line():
    assert user_line(ValueError("never raised")) == ""


def test_the_error_of_a_task_names_exception_message_and_line_on_one_line(module):
    module["json"] = None
    cause = raised(module["process"])
    assert str(task_failed("Partition 3", "process of kafka.in[3]@17", cause)) == (
        "Partition 3: process of kafka.in[3]@17 failed: AttributeError: 'NoneType' object has no attribute 'loads' "
        "(tasks/counts.py:5)"
    )


def test_what_is_kept_of_a_failure_has_its_traceback_and_its_message(module):
    cause = raised(module["process"])
    error = task_failed("Partition 3", "process of kafka.in[3]@17", cause)
    error.call = replace(error.call, span=("kafka.in[3]", 17, 17))
    error.__cause__ = cause
    found = user_failure(error)
    assert (found.exception, found.task, found.at) == ("JSONDecodeError", "Partition 3", "tasks/counts.py:5")
    assert (found.partition, found.first, found.last) == ("kafka.in[3]", 17, 17)
    assert 'counts.py", line 8, in process' in found.traceback
    assert found.traceback.endswith(str(cause))


def test_an_error_that_is_about_nothing_of_the_users_is_none():
    assert user_failure(SamzapyError("the broker is away")) is None
    assert user_failure(KeyError("x")) is None


def test_of_a_long_traceback_the_end_is_kept():
    text = whole_traceback(ValueError("x" * 2 * LONGEST_TRACEBACK))
    assert len(text) == LONGEST_TRACEBACK + 3
    assert text.startswith("...x")


def test_text_without_a_form_in_utf_8_is_written_as_its_numbers():
    assert whole_traceback(ValueError("\ud800")).endswith(r"\ud800")
