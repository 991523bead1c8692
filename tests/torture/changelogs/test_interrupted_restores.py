"""Restores that are cut off, changelogs of every shape, and records that should not be in one."""

import json
import random
import re
import signal
import subprocess
import sys

import changelog_partition
import pytest
from changelog_partition import BATCH, Changelog
from crash_job import fold
from outcomes import ANY, GUARANTEES

from samzapy.errors import ForeignRecords, SerdeError
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.system.local.factory import MemoryCluster


@pytest.fixture(params=["memory", "local"])
def changelog(request, tmp_path):
    made = Changelog(request.param, tmp_path)
    yield made
    disarm()
    made.admin.close()
    MemoryCluster.reset_all()


def changes(count, seed=0):
    """Puts of 500 keys and, every tenth, a deletion."""
    random_ = random.Random(seed)
    return [
        (b"%04d" % random_.randrange(500), None if n % 10 == 9 else b"%d" % n + random_.randbytes(80))
        for n in range(count)
    ]


def replayed(*parts):
    return {key: value for part in parts for key, value in dict(part).items()}


def rows(*parts):
    return {key: value for key, value in replayed(*parts).items() if value is not None}


def differences(found, expected):
    return sum(1 for key in found.keys() | expected.keys() if found.get(key) != expected.get(key))


def judge(outcome, scenario, changelog, found, expected, events):
    outcome(
        scenario,
        guarantee=ANY,
        system=changelog.system,
        events=events,
        faults=1,
        lost=len(expected.keys() - found.keys()),
        duplicated=0,
        mismatches=differences(found, expected),
    )


@pytest.mark.parametrize("percent", [1, 25, 50, 75, 99])
def test_a_restore_that_fails_goes_on_where_it_was(changelog, percent, outcome):
    written = changes(100 * BATCH)
    changelog.append(written)
    arm("restore.batch", nth=percent)
    with pytest.raises(FailPointReached):
        changelog.restore()
    found, read = changelog.restore()
    assert read <= (101 - percent) * BATCH
    judge(outcome, "restore cut off", changelog, found, rows(written), len(written))


@pytest.mark.parametrize("percent", [1, 25, 50, 75, 99])
def test_a_killed_restore_goes_on_where_the_disk_was_or_begins_again(tmp_path, percent, outcome):
    changelog = Changelog("local", tmp_path)
    written = changes(100 * BATCH)
    changelog.append(written)
    killed = subprocess.run([sys.executable, changelog_partition.__file__, tmp_path, str(percent)], check=False)
    assert killed.returncode == -signal.SIGKILL
    found, _ = changelog.restore()
    changelog.admin.close()
    judge(outcome, "restore cut off", changelog, found, rows(written), len(written))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("nth", [1, 2])
def test_a_job_that_crashes_while_it_restores_starts_again(ledger, guarantee, nth, tmp_path, outcome):
    job = ledger(guarantee)
    job.send(200)
    job.run()
    job.send(50)
    job.flat["job.logged.store.base.dir"] = str(tmp_path / "elsewhere")
    arm("restore.chunk", nth=nth)
    with pytest.raises(FailPointReached):
        job.run()
    assert not job.recover()
    outcome("crash while restoring", **job.numbers(faults=1))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("garbage", [b"\xff\xfe", b"{", b"\x00" * 100], ids=["no text", "half", "zeros"])
def test_a_value_that_is_none_of_the_stores_is_named_before_any_commit(ledger, guarantee, garbage, outcome):
    job = ledger(guarantee)
    job.send(28)
    job.run()
    before = job.state()
    key = min(before)
    record = re.escape(job.append_change(key, garbage))
    job.send(28)
    with pytest.raises(ForeignRecords, match=record):
        job.run()
    job.adopt()
    # At-most-once has moved past the messages by then.
    for _ in range(1 if guarantee == "at-most-once" else 2):
        with pytest.raises(SerdeError, match=rf"store 'ledger': value of key '{key}', changelog \w+\.{record}: "):
            job.run()
    job.append_change(key, json.dumps(before[key]).encode())
    job.adopt()
    assert not job.recover()
    outcome("garbage in a changelog", **job.numbers(faults=1))
    if guarantee == "exactly-once":
        assert job.state() == fold(range(56))
