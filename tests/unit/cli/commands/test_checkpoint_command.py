"""`samzapy checkpoint`, on a job that has run on the local system."""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pytest
from counting_job import COUNTS, run_elsewhere, write_views

from samzapy.api.checkpoint import JobRun
from samzapy.api.system import OutgoingRecord
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.records import write_owner
from samzapy.config.loader import load_job
from samzapy.system.clients import job_clients
from samzapy.system.local.factory import LocalSystemFactory

EXACTLY_ONCE = ("-c", "task.guarantee=exactly-once", "-c", "task.commit.ms=1000")


@pytest.fixture
def checkpoint(samzapy, ran):
    shutil.copytree(ran, ".", dirs_exist_ok=True)

    def call(command, *arguments, code=0):
        found, output, errors = samzapy("checkpoint", command, "job.properties", *arguments)
        assert found == code, errors
        return errors if code else output

    return call


def committed(show):
    rows = map(json.loads, show("show", "--json").splitlines())
    return {ssp: place["committed"] for row in rows for ssp, place in row["inputs"].items()}


def ends(show):
    rows = map(json.loads, show("show", "--json").splitlines())
    return {ssp: place["upcoming"] for row in rows for ssp, place in row["inputs"].items()}


def counts_of(samzapy):
    _, output, _ = samzapy("store", "scan", "job.properties", "counts")
    return {row["key"]: row["value"] for row in map(json.loads, output.splitlines())}


def note_owner(host, pid, started_ms=2_000_000_000_000):
    config = load_job("job.properties")
    with closing(job_clients(config, "test")) as clients, closing(manager_for(config, clients)) as checkpoints:
        write_owner(checkpoints, JobRun("run", started_ms, host, pid))


def test_positions_are_shown_with_what_is_left_to_read(samzapy, checkpoint):
    assert committed(checkpoint) == ends(checkpoint)
    write_views(samzapy, ["/a"])
    newest = max(json.loads(line)["clock-ms"] for line in checkpoint("show", "--json").splitlines())
    shown = datetime.fromtimestamp(newest / 1000, timezone.utc).isoformat(timespec="seconds")
    assert shown in checkpoint("show")
    rows = [line.split() for line in checkpoint("show").splitlines()]
    behind = [row[-1] for row in rows if row[:1] == ["Partition"] and row[2].startswith("local.views[")]
    assert sorted(behind) == ["0", "1"]
    assert checkpoint("show").splitlines()[-1].endswith("has ended")


@pytest.mark.parametrize("keys", [(), EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_a_job_that_was_moved_back_reads_again(samzapy, ran, keys):
    shutil.copytree(ran, ".", dirs_exist_ok=True)
    code, output, errors = samzapy("checkpoint", "set", "job.properties", "oldest", *keys)
    assert code == 0, errors
    assert "applies messages to them again" in errors
    assert output.startswith("Moved\n")
    run_elsewhere(".", *keys)
    assert counts_of(samzapy) == {key: 2 * value for key, value in COUNTS.items()}


def test_a_position_is_a_place_an_offset_or_a_time(checkpoint):
    end = ends(checkpoint)
    producer = LocalSystemFactory().producer(load_job("job.properties").systems["local"], "test")
    times = (4_000_000_000_000, 4_000_000_001_000)
    producer.send([OutgoingRecord("views", b"/z", b"{}", p, timestamp=t) for p in (0, 1) for t in times])
    producer.flush()
    producer.close()
    for position, expected in (
        ("oldest", dict.fromkeys(end, 0)),
        ("newest", {ssp: offset + 1 for ssp, offset in end.items()}),
        ("upcoming", {ssp: offset + 2 for ssp, offset in end.items()}),
        ("1", dict.fromkeys(end, 1)),
        ("@4000000000001", {ssp: offset + 1 for ssp, offset in end.items()}),
        ("2096-10-02T07:06:40Z", end),
        ("2096-10-02 09:06:40+02:00", end),
        ("2200-01-01", {ssp: offset + 2 for ssp, offset in end.items()}),
    ):
        checkpoint("set", position)
        assert committed(checkpoint) == expected, position
    checkpoint("reset")
    assert committed(checkpoint) == dict.fromkeys(end, 0)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["set", "99"], 3, "local.views[0]@99: the log holds offsets 0 to"),
        (["set", "yesterday"], 2, "position: oldest, newest, upcoming, default, an offset, a time"),
        (["set", "oldest", "--input", "local.vews"], 2, "--input: an input of the job (local.views)"),
        (["set", "oldest", "-c", "task.checkpoint.factory=none"], 2, "the job keeps no positions"),
        (["show", "-c", "task.inputs=local.nothing"], 3, "topic 'nothing' does not exist"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(checkpoint, arguments, code, message):
    (line,) = checkpoint(arguments[0], *arguments[1:], code=code).splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_job_whose_driver_runs_here_is_not_moved(checkpoint):
    note_owner(socket.gethostname(), os.getpid())
    before = committed(checkpoint)
    for force in ((), ("--take-over",)):
        assert f"(pid {os.getpid()}) is running; stop it first" in checkpoint("set", "oldest", *force, code=3)
    assert committed(checkpoint) == before
    assert "is running" in checkpoint("show")


def test_a_job_whose_last_driver_cannot_be_seen_needs_a_word_more(checkpoint):
    note_owner("another-host", 42)
    refusal = checkpoint("set", "oldest", code=3)
    assert (
        "on another-host (pid 42) cannot be seen from here; if it has ended, or must end now, add --take-over"
        in refusal
    )
    assert "cannot be seen" in checkpoint("show")
    checkpoint("set", "oldest", "--take-over", *EXACTLY_ONCE)
    assert set(committed(checkpoint).values()) == {0}


HOLDER = """
import sys
from pathlib import Path
from samzapy.api.engine import EngineSettings
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
engine = RocksDbStorageEngineFactory().open(Path(sys.argv[1]), EngineSettings("counts"))
print("open", flush=True)
sys.stdin.readline()
"""


def test_a_container_that_outlives_its_driver_is_seen_by_its_stores(checkpoint):
    path = Path("state/views-1/counts/Partition_1")
    command = [sys.executable, "-c", HOLDER, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "open\n"
        refusal = checkpoint("set", "oldest", "--take-over", code=3)
        assert f"pid {holder.pid} has the store" in refusal
    finally:
        holder.kill()
        holder.communicate()
    checkpoint("set", "oldest")
