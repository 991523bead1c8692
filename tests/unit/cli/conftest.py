"""The command in a folder of its own."""

import pytest
from click.testing import CliRunner
from counting_job import ran as ran  # noqa: PLC0414 - a fixture

from samzapy.cli.main import cli


@pytest.fixture
def samzapy(tmp_path, monkeypatch):
    """Calls a command line in an empty folder; (exit code, output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, stdin=None):
        done = CliRunner().invoke(cli, list(arguments), input=stdin, prog_name="samzapy")
        return done.exit_code, done.stdout, done.stderr

    return call
