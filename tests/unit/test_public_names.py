"""What `import samzapy` gives: its names, each imported when it is first used."""

import subprocess
import sys

import pytest

import samzapy


@pytest.mark.parametrize("name", samzapy.__all__)
def test_every_public_name_is_there(name):
    assert getattr(samzapy, name) is not None


def test_the_field_of_a_message_is_not_that_of_a_dataclass():
    assert samzapy.field("page")({"page": "/"}) == "/"


def test_a_name_that_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'samzapy' has no attribute 'StreamTsk'"):
        samzapy.StreamTsk  # noqa: B018


def test_the_public_names_are_offered_for_completion():
    assert set(samzapy.__all__) <= set(dir(samzapy))


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("import samzapy, sys; print(*sorted(m for m in sys.modules if m.startswith('samzapy.')))", "samzapy.version"),
        ("import samzapy; print(samzapy.errors.ConfigError.__name__)", "ConfigError"),
        ("import samzapy; print(samzapy.api.__name__)", "samzapy.api"),
        ("from samzapy import *; print(StreamTask.__module__, run.__module__)", "samzapy.api.task samzapy"),
    ],
    ids=["only names", "errors", "api", "star"],
)
def test_a_new_interpreter_imports_what_is_used(code, printed):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed
