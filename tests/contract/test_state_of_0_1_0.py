"""A job goes on from the files that version 0.1.0 has left: its local stores, logs, checkpoints and markers.

`state_of_0_1_0.tar.gz` has the folder of a job of that version after 100 numbers, `n` under the key `k{n % 7}`, in
exactly-once on the embedded system: the job file, `logs.db`, and `state/` with a store of each form of values (stamped
with their times, plain).
"""

import json
import shutil
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from jobs.last_and_count import DELETES_EVERY

from samzapy.api.system import OutgoingRecord
from samzapy.cli.main import cli
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

BEFORE, ALL = 100, 130


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with tarfile.open(Path(__file__).with_name("state_of_0_1_0.tar.gz")) as kept:
        kept.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "jobs"))
    return tmp_path


def go_on():
    """Process the numbers that are new in this version; returns the status at the end."""
    settings = load_job("job.properties").systems["local"]
    with closing(system_factory(settings).producer(settings, "test")) as producer:
        numbers = range(BEFORE, ALL)
        producer.send([OutgoingRecord("numbers", f"k{n % 7}".encode(), json.dumps(n).encode()) for n in numbers])
        producer.flush()
    return LocalRunner().run(prepare(load_job("job.properties"), until_end=True), RunOptions()).status


def expected():
    last, counts = {}, {}
    for n in range(ALL):
        key = f"k{n % 7}"
        counts[key] = counts.get(key, 0) + 1
        last[key] = n
        if n % DELETES_EVERY == 0:
            del last[key]
    return {"last": last, "counts": counts}


def held(store, *where):
    done = CliRunner().invoke(cli, ["store", "scan", "job.properties", store, *where])
    assert done.exit_code == 0, done.stderr
    return {row["key"]: row["value"] for row in map(json.loads, done.stdout.splitlines())}


def test_its_local_stores_are_opened_and_go_on(folder):
    status = go_on()
    assert {(each.source, each.records) for each in status.restored} == {("local store", 0)}
    assert status.processed == ALL - BEFORE
    for store, entries in expected().items():
        assert held(store) == held(store, "--local", "state") == entries


def test_its_changelogs_restore_the_stores_where_the_files_are_gone(folder):
    shutil.rmtree(folder / "state")
    status = go_on()
    assert all(each.records for each in status.restored)
    for store, entries in expected().items():
        assert held(store, "--local", "state") == entries


def test_its_checkpoints_are_shown(folder):
    done = CliRunner().invoke(cli, ["checkpoint", "show", "job.properties"])
    assert done.exit_code == 0, done.stderr
    assert "local.numbers[0]" in done.stdout
