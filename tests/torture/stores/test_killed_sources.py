"""Kills while stores are filled from streams, read again from inputs, and uploaded to and downloaded from snapshots."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest
from jobs import sourced_job

from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.local.factory import LocalSystemFactory

#: Each start but the last is killed at one of these; the state folder is then kept or lost, in turns.
KILLS = (
    "fill.batch:2",
    "commit.4:3",
    "fill.keep:2",
    "commit.5:4",
    "backup.index:1",
    "commit.6:3",
    "backup.file:2",
    "fill.batch:1",
    "backup.download:2",
    "backup.collect:1",
)
BATCH = 200


def feed(producer, random_, expected):
    """One more batch of both streams, and what the stores should hold then."""
    for stream, store in (("in", "seen"), ("rates", "rates")):
        records = []
        for _ in range(BATCH):
            key, number = f"key-{random_.randrange(40)}", random_.randrange(100)
            expected[store][key] += number if store == "rates" else 1
            records.append(OutgoingRecord(stream, key.encode(), b"%d" % number, 0))
        producer.send(records)
    producer.flush()


def start(folder, keys, fail=""):
    """Run the job in a process of its own; how it ended."""
    environ = {**os.environ, "SAMZAPY_FAIL": fail and f"{fail}:kill"}
    command = [sys.executable, sourced_job.__file__, str(folder), json.dumps(keys)]
    return subprocess.run(command, env=environ, check=False, timeout=120).returncode


@pytest.mark.timeout(300)
def test_kills_while_stores_come_from_streams_and_snapshots_change_nothing(tmp_path, outcome):
    settings = SystemSettings("log", "", properties={"path": str(tmp_path / "log.db")})
    admin = LocalSystemFactory().admin(settings, "test")
    for stream in ("in", "rates"):
        admin.create(StreamSpec(stream, 1))
    keys = {
        "systems.log.samza.factory": "local",
        "systems.log.path": str(tmp_path / "log.db"),
        "task.inputs": "log.in",
        "task.class": "sourced_job:Ledger",
        "stores.rates.side.inputs": "log.rates",
        "stores.rates.side.inputs.processor.factory": "sourced_job:Sums",
        "stores.seen.restore.inputs": "log.in",
        "stores.seen.restore.inputs.processor.factory": "sourced_job:Occurrences",
        "stores.counts.changelog": "log.counts-changelog",
    }
    producer = LocalSystemFactory().producer(settings, "test")
    random_, expected = random.Random(7), {"seen": Counter(), "rates": Counter()}
    killed = 0
    for number, point in enumerate(KILLS):
        feed(producer, random_, expected)
        code = start(tmp_path, keys, point)
        assert code in {0, -signal.SIGKILL}, f"{point}: exit code {code}"
        killed += code != 0
        if number % 2:
            shutil.rmtree(tmp_path / "state", ignore_errors=True)
    feed(producer, random_, expected)
    assert start(tmp_path, keys) == 0
    producer.close()
    admin.close()
    told = json.loads((tmp_path / "told" / "Partition 0").read_text())
    wanted = {"counts": expected["seen"], **expected}
    outcome(
        "killed while filled and uploaded",
        guarantee="exactly-once",
        system="local",
        events=2 * BATCH * (len(KILLS) + 1),
        faults=killed,
        lost=sum(max(wanted[name][key] - told[name].get(key, 0), 0) for name in wanted for key in wanted[name]),
        duplicated=sum(max(told[name].get(key, 0) - wanted[name][key], 0) for name in wanted for key in wanted[name]),
        mismatches=sum(told[name] != dict(wanted[name]) for name in wanted),
    )
    assert killed >= len(KILLS) - 2, "some points were never reached"
