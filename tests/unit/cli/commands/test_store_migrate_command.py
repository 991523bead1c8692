"""`samzapy store migrate`, on a job that has run on the local system."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from counting_job import COUNTS, run_job, write_views

PAGE = Path(__file__).parents[4] / "docs/how-to/operate/migrate.md"
JSON = ("-c", "stores.counts.msg.serde=json")


@pytest.fixture
def migrate(samzapy, ran):
    shutil.copytree(ran, ".", dirs_exist_ok=True)

    def call(*arguments, code=0):
        found, output, errors = samzapy("store", "migrate", "job.properties", "counts", *arguments)
        assert found == code, errors
        return errors if code else output

    return call


def entries(samzapy, *arguments):
    code, output, errors = samzapy("store", "scan", "job.properties", "counts", *arguments)
    assert code == 0, errors
    return {row["key"]: row["value"] for row in map(json.loads, output.splitlines())}


def test_the_table_has_each_partition_and_the_job_goes_on(samzapy, migrate):
    lines = migrate(*JSON).splitlines()
    assert lines[0] == (
        "Migrated: store 'counts' from key.serde string, msg.serde long to key.serde string, msg.serde json"
    )
    assert lines[1].split() == ["partition", "task", "entries", "rewritten", "deleted", "do", "not", "fit"]
    assert [line.split()[:3] for line in lines[2:4]] == [["0", "Partition", "0"], ["1", "Partition", "1"]]
    assert sum(int(line.split()[4]) for line in lines[2:4]) == len(COUNTS)
    assert entries(samzapy, *JSON) == COUNTS
    write_views(samzapy, ["/a"])
    run_job(samzapy, *JSON)
    assert entries(samzapy, *JSON) == {**COUNTS, "/a": COUNTS["/a"] + 1}


def test_a_killed_migration_is_seen_by_other_commands_and_completed_by_the_same(samzapy, migrate):
    command = [sys.executable, "-c", "from samzapy.cli.main import main; main()", "store", "migrate", "job.properties"]
    environment = {**os.environ, "SAMZAPY_FAIL": "migrate.6a:2:kill"}
    killed = subprocess.run([*command, "counts", *JSON], env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for arguments in ((), JSON):
        code, _, errors = samzapy("check", "job.properties", *arguments)
        assert code == 3
        assert "migration to msg.serde json" in errors
        assert "is not complete (1 of 2 partitions)" in errors
    assert "is not complete" in samzapy("store", "count", "job.properties", "counts")[2]
    assert [line.split()[3] for line in migrate().splitlines()[2:4]].count("done") == 1
    assert entries(samzapy, *JSON) == COUNTS


def test_the_page_about_it_has_commands_that_work(samzapy, migrate, monkeypatch):
    page = PAGE.read_text()
    job_file = Path("job.properties")
    job_file.write_text(job_file.read_text() + "stores.counts.msg.serde=json\n")
    Path("counts.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1])
    monkeypatch.setattr(sys, "path", [*sys.path])
    commands = re.findall(r"^samzapy (store migrate job\.properties .*)$", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        code, _, errors = samzapy(*command.split())
        assert code == 0, errors
    assert entries(samzapy) == {key: {"views": count, "since": "2026-01-01"} for key, count in COUNTS.items()}


def test_a_target_that_the_job_file_lacks_is_named_as_what_is_to_be_set(samzapy, migrate):
    code, _, errors = samzapy("store", "migrate", "job.properties", "counts", "--to", "msg.serde=msgpack")
    assert code == 0
    assert errors == "warning: set stores.counts.msg.serde=msgpack in the job file before its next start\n"
    assert entries(samzapy, "-c", "stores.counts.msg.serde=msgpack") == COUNTS


def test_a_dry_run_prints_the_entries_that_do_not_fit_and_fails(samzapy, migrate):
    code, output, errors = samzapy(
        "store", "migrate", "job.properties", "counts", "--to", "msg.serde=string", "--dry-run"
    )
    assert (code, errors) == (1, "error: store 'counts': 4 entries do not fit\n")
    lines = [line for line in output.splitlines() if line.startswith("local.counts-log[")]
    assert len(lines) == len(COUNTS)
    assert all("string serde takes a str, got int" in line and "@" in line for line in lines)
    assert output.startswith("Would be migrated: store 'counts'")
    assert entries(samzapy) == COUNTS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "msg.serde=string"), "value of key '/a': string serde takes a str, got int (the first of"),
        (("--to", "msg.serde=jsn"), "--to msg.serde: serde 'jsn' unknown; known: "),
        (("--from", "msg.serde=double", *JSON), "--from msg.serde: the store was written with long, got 'double'"),
        ((*JSON, "--convert", "json:dump_all"), "--convert: json has no dump_all, got 'json:dump_all'"),
        ((), "store 'counts': nothing changes"),
        (("--to", "msg.serde"), "expected KEY=VALUE, got 'msg.serde'"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(samzapy, migrate, arguments, said):
    code, _, errors = samzapy("store", "migrate", "job.properties", "counts", *arguments)
    assert code in {1, 2}
    assert said in " ".join(errors.split())
    assert entries(samzapy) == COUNTS


def test_an_unknown_store_is_refused(samzapy, migrate):
    code, _, errors = samzapy("store", "migrate", "job.properties", "nope", *JSON)
    assert (code, errors) == (2, "error: stores.nope.factory: no such store; the job has: counts\n")
