"""`samzapy store`, on a job that has run on the local system."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from counting_job import COUNTS, prepare_job, run_job, write_views
from rocksdict import Options, Rdict

from samzapy.api.engine import EngineSettings
from samzapy.api.system import OutgoingRecord
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure, RestoreStalled, RetriableError
from samzapy.storage.inspection import local_directories
from samzapy.storage.local.directory import store_directory
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.system.local.factory import LocalSystemFactory, LogAdmin


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


def test_what_lies_beside_the_tasks_own_stores_is_not_read(store):
    for own in list(Path("state").glob("*/counts/Partition_?")):
        for kind in ("standby-1", "stale-17", "corrupt-17", "orphaned-17"):
            shutil.copytree(own, own.with_name(f"{own.name}.{kind}"))
    assert entries(store("scan", "--local", "state")) == sorted(COUNTS.items())


def test_entries_without_a_marker_are_announced_by_their_directory(samzapy, store):
    (own, *_) = Path("state").glob("*/counts/Partition_0")
    with closing(Rdict(str(own.with_name("Foreign")), Options(raw_mode=True))) as foreign:
        foreign[b"/foreign"] = b"1"
    code, _, errors = samzapy("store", "count", "job.properties", "counts", "--local", "state")
    lines = errors.splitlines()
    assert (code, "Foreign: entries without a marker" in lines) == (0, True)
    assert {line.partition(":")[0] for line in lines} == {"Foreign", "partition 0", "partition 1"}


def test_the_entry_of_a_key_says_which_partition_has_it(store):
    (row,) = map(json.loads, store("get", "/a").splitlines())
    assert (row["key"], row["value"]) == ("/a", 3)
    assert row["partition"] in {0, 1}
    assert entries(store("get", "/d", "/a", "--local", "state")) == [("/a", 3), ("/d", 1)]


def test_an_absent_key_is_an_error_after_those_that_are_there(samzapy, store):
    code, output, errors = samzapy("store", "get", "job.properties", "counts", "/a", "/nope")
    assert (code, entries(output)) == (1, [("/a", 3)])
    assert errors == "error: store 'counts' has no key '/nope'\n"


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


def test_text_is_key_tab_value(store):
    assert store("scan", "--format", "text", "--prefix", "/a") == "/a\t3\n"


def test_entries_are_counted_by_partition(store):
    lines = [line.split() for line in store("count").splitlines() if line.strip()]
    assert lines[-1] == ["all", "4"]
    assert sum(int(number) for _, number in lines[2:-1]) == 4
    one = [line.split() for line in store("count", "--partition", "0").splitlines() if line.strip()]
    assert one[-2][1] == one[-1][1] != "4"


def test_a_deleted_key_is_gone_and_a_later_value_counts(samzapy, store):
    deletion = ("--key-serde", "string", "--msg-serde", "string", "--null", "NULL", "--partition")
    for partition in ("0", "1"):
        samzapy("topic", "write", "local.counts-log", *deletion, partition, stdin="/a\tNULL\n")
    assert [key for key, _ in entries(store("scan"))] == ["/b", "/c", "/d"]


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


@pytest.mark.parametrize("command", [("adopt",), ("rebuild", "new"), ("scan",)])
@pytest.mark.usefixtures("store")
def test_nobody_is_told_to_create_a_changelog_that_the_job_creates(samzapy, command):
    name, *more = command
    code, _, errors = samzapy(
        "store", name, "job.properties", "counts", *more, "-c", "stores.counts.changelog=local.none"
    )
    assert (code, "topic create" in errors) == (3, False)
    assert "it is the changelog of store 'counts', and a start of the job creates it" in errors


def test_a_rebuild_of_one_task_touches_no_other_and_no_store_that_is_there(samzapy, store):
    rebuild = ("store", "rebuild", "job.properties", "counts")
    assert samzapy(*rebuild, "new", "--task", "Partition 1")[0] == 0
    assert [path.name for path in Path("new/views-1/counts").iterdir()] == ["Partition_1"]
    code, _, errors = samzapy(*rebuild, "new")
    assert (code, "exists already" in errors) == (3, True)
    code, _, errors = samzapy(*rebuild, "new", "--task", "Partition 7")
    assert code == 2
    assert "the job's tasks are Partition 0, Partition 1" in errors


def test_a_local_store_is_read_while_its_owner_has_it_open(store):
    path = Path("state/views-1/counts/Partition_0").resolve()
    owner = RocksDbStorageEngineFactory().open(path, EngineSettings("counts"))
    before = entries(store("scan", "--local", str(path)))
    marker = owner.marker()
    owner.write({b"/new": (7).to_bytes(8, "big")}, marker)
    assert entries(store("scan", "--local", str(path))) == before
    owner.flush()
    assert ("/new", 7) in entries(store("scan", "--local", str(path)))
    owner.write({b"/newer": (8).to_bytes(8, "big")}, marker)
    owner.close()
    assert ("/newer", 8) in entries(store("scan", "--local", str(path)))


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
        (["rebuild", "job.properties", "counts", "new", "-c", "stores.counts.factory=inmemory"], 2, "keeps no files"),
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


def test_entries_of_an_expiring_store_are_shown_until_their_time_is_over(samzapy, store):
    producer = LocalSystemFactory().producer(load_job("job.properties").systems["local"], "test")
    producer.send([OutgoingRecord("counts-log", b"/old", bytes(8), 0, timestamp=1_000)])
    producer.flush()
    producer.close()
    expiring = ("-c", "stores.counts.rocksdb.ttl.ms=3600000")
    assert entries(store("scan", *expiring)) == sorted(COUNTS.items())
    assert ("/old", 0) in entries(store("scan"))


def test_stores_with_and_without_a_changelog_lie_below_folders_of_their_own(samzapy, monkeypatch, store):
    monkeypatch.setenv("LOGGED_STORE_BASE_DIR", "logged")
    keys = {"job.logged.store.base.dir": "state", "job.non-logged.store.base.dir": "scratch"}
    keys |= {"stores.seen.factory": "rocksdb", "stores.seen.key.serde": "string", "stores.seen.msg.serde": "long"}
    run_job(samzapy, *(text for key, value in keys.items() for text in ("-c", f"{key}={value}")))
    assert sorted(str(path) for path in Path().glob("*/*/*/Partition_0")) == [
        "logged/views-1/counts/Partition_0",
        "scratch/views-1/seen/Partition_0",
        "state/views-1/counts/Partition_0",
    ]
    assert entries(store("scan", "--local", "logged")) == sorted(COUNTS.items())


def test_a_store_of_a_job_that_never_ran_has_no_changelog_yet(samzapy):
    prepare_job(samzapy)
    code, _, errors = samzapy("store", "count", "job.properties", "counts")
    assert code == 3
    assert "topic 'counts-log' does not exist" in errors


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


def test_a_command_raises_the_soft_limit_of_open_files_because_a_store_may_have_many_partitions(store):
    code = (
        "import atexit, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096)); "
        "atexit.register(lambda: print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], file=sys.stderr)); "
        "from samzapy.cli.main import cli; cli.main(sys.argv[1:])"
    )
    arguments = ["store", "scan", "job.properties", "counts", "--local", "state"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert entries(done.stdout) == sorted(COUNTS.items())
    assert done.stderr.splitlines()[-1] == "4096"


@pytest.mark.usefixtures("store")
def test_a_copy_that_cannot_be_is_refused_before_spark_starts(samzapy):
    copy = ("store", "copy", "job.properties", "counts", "--to")
    code, _, errors = samzapy(*copy, "local.counts-log")
    assert (code, "--to: is the changelog that the store has" in errors) == (2, True)
    code, _, errors = samzapy(*copy, "local.new", "--convert", "no_module:function")
    assert (code, "--convert: cannot import no_module" in errors) == (2, True)
    code, _, errors = samzapy(*copy, "local.new", "--set", "msg.serde=jsn")
    assert (code, "stores.counts.msg.serde" in errors) == (2, True)
