"""A job of the page-view task on the local system of a folder, for commands that look at jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job

from samzapy.cli.main import cli

JOB = page_view_job("views", output="local.counts-out", changelog="local.counts-log")
#: Two partitions; murmur2 puts these pages into both.
PAGES = ["/a", "/b", "/c", "/d", "/a", "/b", "/a"]
COUNTS = {"/a": 3, "/b": 2, "/c": 1, "/d": 1}


def write_views(samzapy, pages=PAGES):
    text = "".join(f'{page}\t{{"user": "u"}}\n' for page in pages)
    assert samzapy("topic", "write", "local.views", "--job", "job.properties", stdin=text)[0] == 0


def prepare_job(samzapy, pages=PAGES):
    """Streams and a job file in the current folder; nothing has run yet."""
    Path("job.properties").write_text(JOB)
    for stream in ("views", "counts-out"):
        assert samzapy("topic", "create", f"local.{stream}", "--partitions", "2", "--job", "job.properties")[0] == 0
    write_views(samzapy, pages)


def run_job(samzapy, *arguments):
    code, output, errors = samzapy("run", "job.properties", "--runner", "local", "--until-end", *arguments)
    assert code == 0, errors
    return output


def run_elsewhere(folder, *arguments):
    """The job in a process of its own, to its end; the process is gone afterwards."""
    command = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "run", "job.properties"]
    done = subprocess.run(
        [*command, "--runner", "local", "--until-end", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """A folder in which the job has run once; copy it."""
    folder, before = tmp_path_factory.mktemp("ran"), Path.cwd()

    def samzapy(*arguments, stdin=None):
        done = CliRunner().invoke(cli, list(arguments), input=stdin, prog_name="samzapy")
        return done.exit_code, done.stdout, done.stderr

    os.chdir(folder)
    try:
        prepare_job(samzapy)
    finally:
        os.chdir(before)
    run_elsewhere(folder)
    return folder
