"""`samzapy store`, on a job that has run on the local system."""

import csv
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from counting_job import COUNTS, run_job, write_views

from samzapy.errors import EnvironmentFailure, RestoreStalled, RetriableError
from samzapy.storage.inspection import local_directories
from samzapy.storage.local.directory import store_directory
from samzapy.system.local.factory import LogAdmin


@pytest.fixture
def store(samzapy, ran):
    shutil.copytree(ran, ".", dirs_exist_ok=True)

    def call(command, *arguments, code=0):
        found, output, errors = samzapy("store", command, "job.properties", "counts", *arguments)
        assert found == code, errors
        return errors if code else output

    return call


def entries(output):
    rows = [json.loads(line) for line in output.splitlines()]
    return [(row["key"], row["value"]) for row in rows]


@pytest.mark.parametrize("where", [(), ("--local", "state")])
def test_the_entries_of_all_tasks_come_in_key_order(store, where):
    assert entries(store("scan", *where)) == sorted(COUNTS.items())


def test_the_entry_of_a_key_says_which_partition_has_it(store):
    (row,) = map(json.loads, store("get", "/a").splitlines())
    assert (row["key"], row["value"]) == ("/a", 3)
    assert row["partition"] in {0, 1}
    assert entries(store("get", "/d", "/a", "--local", "state")) == [("/a", 3), ("/d", 1)]


@pytest.mark.parametrize("failure", [RetriableError("the leader is away"), RestoreStalled("no records")])
@pytest.mark.parametrize("command", [("store", "get", "job.properties", "counts", "/a"), ("drain", "job.properties")])
@pytest.mark.usefixtures("store")
def test_a_system_that_fails_is_not_taken_for_the_answer_of_a_command(samzapy, monkeypatch, command, failure):
    def fails(*_):
        raise failure

    monkeypatch.setattr(LogAdmin, "describe", fails)
    monkeypatch.setattr(LogAdmin, "offsets", fails)
    code, output, errors = samzapy(*command)
    assert (code, output, errors) == (3, "", f"error: {failure}\n")


@pytest.mark.parametrize("where", [(), ("--local", "state")])
@pytest.mark.parametrize(
    ("bounds", "keys"),
    [
        (["--from", "/b"], ["/b", "/c", "/d"]),
        (["--to", "/c"], ["/a", "/b"]),
        (["--from", "/b", "--to", "/d"], ["/b", "/c"]),
        (["--from", "/d", "--to", "/b"], []),
        (["--prefix", "/c"], ["/c"]),
        (["--limit", "2"], ["/a", "/b"]),
        (["--limit", "0"], []),
    ],
)
def test_a_scan_keeps_to_its_bounds(store, where, bounds, keys):
    assert [key for key, _ in entries(store("scan", *bounds, *where))] == keys


def test_an_export_is_lines_of_json_or_a_table(store):
    store("export", "out.jsonl")
    assert entries(Path("out.jsonl").read_text()) == sorted(COUNTS.items())
    store("export", "out.csv", "--from", "/c")
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["partition", "key", "value"]
    assert [row[1:] for row in rows[1:]] == [["/c", "1"], ["/d", "1"]]


def test_an_export_replaces_nothing_unless_it_is_told_to(store):
    Path("out.csv").write_text("mine")
    assert store("export", "out.csv", code=3) == "error: out.csv: exists already; --overwrite replaces it\n"
    assert Path("out.csv").read_text() == "mine"
    store("export", "out.csv", "--overwrite")
    assert Path("out.csv").read_text().startswith("partition,key,value\n")
    assert "cannot be written" in store("export", "no/such/folder.csv", code=3)
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith(".out")) == []


def test_a_rebuilt_store_is_what_a_start_of_the_job_goes_on_from(samzapy, store):
    store_rows = samzapy("store", "rebuild", "job.properties", "counts", "new")
    assert store_rows[0] == 0, store_rows[2]
    assert entries(store("scan", "--local", "new")) == sorted(COUNTS.items())
    shutil.rmtree("state")
    shutil.move("new", "state")
    write_views(samzapy, ["/a"])
    assert "local store" in run_job(samzapy)
    assert entries(store("get", "/a")) == [("/a", 4)]


def test_a_rebuild_of_one_task_touches_no_other_and_no_store_that_is_there(samzapy, store):
    rebuild = ("store", "rebuild", "job.properties", "counts")
    assert samzapy(*rebuild, "new", "--task", "Partition 1")[0] == 0
    assert [path.name for path in Path("new/views-1/counts").iterdir()] == ["Partition_1"]
    code, _, errors = samzapy(*rebuild, "new")
    assert (code, "exists already" in errors) == (3, True)
    code, _, errors = samzapy(*rebuild, "new", "--task", "Partition 7")
    assert code == 2
    assert "the job's tasks are Partition 0, Partition 1" in errors


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["scan", "job.properties", "nope"], 2, "no such store; the job has: counts"),
        (["scan", "nope.properties", "counts"], 2, "nope.properties"),
        (
            ["scan", "job.properties", "counts", "--partition", "9"],
            2,
            "local.counts-log has partitions 0 to 1, got '9'",
        ),
        (["scan", "job.properties", "counts", "--local", "nowhere"], 3, "there is no local store here"),
        (["scan", "job.properties", "counts", "--prefix", "/a", "--to", "/b"], 2, "leave out --from and --to"),
        (
            ["scan", "job.properties", "counts", "-c", "stores.counts.key.serde=long", "--prefix", "1"],
            2,
            "keeps prefixes",
        ),
        (["get", "job.properties", "counts", "x", "-c", "stores.counts.key.serde=long"], 1, "key"),
        (["scan", "job.properties", "counts", "-c", "stores.counts.msg.serde=integer"], 1, "value"),
        (["scan", "job.properties", "counts", "-c", "stores.counts.changelog="], 2, "--local reads its files"),
        (["rebuild", "job.properties", "counts", "~no-one/x", "-c", "stores.counts.factory=inmemory"], 2, "no files"),
        (["scan", "job.properties", "counts", "--local", "~no-one/x"], 3, "~no-one"),
        (["scan", "job.properties", "counts", "-c", "stores.counts.changelog=local.none"], 3, "does not exist"),
        (
            ["scan", "job.properties", "counts", "--local", "state", "-c", "stores.counts.rocksdb.ttl.ms=5000"],
            3,
            "another stores.counts.rocksdb.ttl.ms",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(samzapy, store, arguments, code, message):
    found, output, errors = samzapy("store", *arguments)
    assert (found, output) == (code, ""), errors
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.fixture
def unprivileged():
    """Runs what follows as a user whom rights bind: they do not bind root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65_534)
    yield
    os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder that any user may enter: pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("closed", [".", "counts", "counts/CURRENT"])
def test_a_store_that_this_user_may_not_read_is_a_failure_of_the_environment(open_folder, closed, request):
    state = open_folder / "state"
    part = store_directory(state, "job-1", "counts", "Partition 0")
    part.mkdir(parents=True)
    (part / "CURRENT").touch()
    path = {".": state, "counts": part.parent, "counts/CURRENT": part / "CURRENT"}[closed]
    path.chmod(0)
    request.getfixturevalue("unprivileged")
    with pytest.raises(EnvironmentFailure, match=f"{path}: this user may not read it"):
        local_directories("job-1", "counts", state)


@pytest.mark.usefixtures("store")
def test_a_copy_that_cannot_be_is_refused_before_spark_starts(samzapy):
    copy = ("store", "copy", "job.properties", "counts", "--to")
    code, _, errors = samzapy(*copy, "local.counts-log")
    assert (code, "--to: is the changelog that the store has" in errors) == (2, True)
    code, _, errors = samzapy(*copy, "local.new", "--convert", "no_module:function")
    assert (code, "--convert: cannot import no_module" in errors) == (2, True)
    code, _, errors = samzapy(*copy, "local.new", "--set", "msg.serde=jsn")
    assert (code, "stores.counts.msg.serde" in errors) == (2, True)
