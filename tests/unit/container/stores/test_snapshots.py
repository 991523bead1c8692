"""A job that keeps snapshots of its stores, and loses the stores."""

import shutil
from collections import Counter

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy.failpoints import FailPointReached, arm


@pytest.fixture
def job(tmp_path):
    keys = {"stores.counts.backup.path": (tmp_path / "backup").as_uri(), "stores.counts.backup.interval.ms": "0"}
    return MemoryJob(tmp_path / "state", partitions=1, task=CountingTask, **keys)


def messages(n):
    return [(0, f"key-{i % 7}", {"id": i}) for i in range(n)]


def run_and_lose(job, tmp_path, sent, **keys):
    """Process these messages, stop, and lose the disk."""
    job.send(*sent)
    report = job.run(**keys)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    return report


def told(report):
    records, _, source = report.restored["Partition 0/counts"]
    return records, source


def test_a_task_without_its_files_starts_from_the_snapshot(job, tmp_path):
    run_and_lose(job, tmp_path, messages(100))
    report = run_and_lose(job, tmp_path, messages(50))
    assert told(report) == (0, "snapshot")
    assert job.changelog() == Counter(key for _, key, _ in [*messages(100), *messages(50)])


def test_what_the_snapshot_lacks_comes_from_the_changelog(job, tmp_path):
    run_and_lose(job, tmp_path, messages(100))
    run_and_lose(job, tmp_path, messages(20), **{"stores.counts.backup.interval.ms": "3600000"})
    report = run_and_lose(job, tmp_path, messages(1))
    assert told(report) == (7, "snapshot + changelog")
    sent = [*messages(100), *messages(20), *messages(1)]
    assert job.changelog() == Counter(key for _, key, _ in sent)


@pytest.mark.parametrize("point", ["backup.file", "backup.index"])
def test_a_snapshot_that_was_cut_off_is_not_used(job, tmp_path, point, caplog):
    arm(point)
    run_and_lose(job, tmp_path, messages(100))
    assert "No snapshot of" in caplog.text
    report = run_and_lose(job, tmp_path, messages(10))
    assert told(report) == (7, "changelog")
    report = run_and_lose(job, tmp_path, messages(10))
    assert told(report) == (0, "snapshot")
    assert job.changelog() == Counter(key for _, key, _ in messages(100) + messages(10) * 2)


def test_a_download_that_is_cut_off_is_made_again(job, tmp_path):
    run_and_lose(job, tmp_path, messages(100))
    arm("backup.download")
    with pytest.raises(FailPointReached):
        job.run()
    assert told(job.run()) == (0, "snapshot")


def test_a_snapshot_of_a_changelog_that_was_made_anew_is_not_used(job, tmp_path, caplog):
    run_and_lose(job, tmp_path, messages(100))
    for stream in ("counts-changelog", "__samza_checkpoint_ver_1_for_counting_1"):
        job.admin.delete(stream)
    run_and_lose(job, tmp_path, [], **{"stores.counts.backup.path": ""})
    report = job.run()
    assert "was replaced by another one" in caplog.text
    assert told(report) == (7, "changelog")
    assert job.changelog() == Counter(key for _, key, _ in messages(100))
