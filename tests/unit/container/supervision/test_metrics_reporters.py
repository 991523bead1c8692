"""The reporters of a job file, called while a container runs."""

import json
import logging
import shutil

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy.errors import TaskFailed

SNAPSHOTS = {
    "metrics.reporters": "snap",
    "metrics.reporter.snap.class": "org.apache.samza.metrics.reporter.MetricsSnapshotReporterFactory",
    "metrics.reporter.snap.stream": "mem.metrics",
    "metrics.reporter.snap.interval": "1",
}


def snapshots(job):
    return [json.loads(value) for value in job.values("metrics")]


@pytest.fixture
def snapshot_job(tmp_path):
    def make(task=CountingTask, **keys):
        return MemoryJob(tmp_path, 1, task, **{**SNAPSHOTS, **keys})

    return make


def test_the_stream_of_metrics_is_created_and_gets_the_last_numbers(snapshot_job):
    job = snapshot_job(**{"metrics.reporter.snap.interval": "60"})
    job.send(*((0, "k", {"id": n}) for n in range(5)))
    report = job.run()
    snapshot, of_task = snapshots(job)
    header = snapshot["header"]
    assert (header["job-name"], header["container-name"]) == ("counting", "samza-container-0")
    assert snapshot["metrics"]["Partition 0"]["processed"] == 5
    assert snapshot["metrics"] | {"container": {}} == report.metrics | {"container": {}}
    assert of_task["header"] | {"time": 0} == {**header, "source": "TaskName-Partition 0", "time": 0}


def test_a_snapshot_has_what_a_task_has_done_since_its_last_commit(snapshot_job):
    job = snapshot_job(**{"metrics.reporter.snap.interval": "60"})
    job.send((0, "k", {"id": 1}))
    attempt = job.container()[0]._build()
    attempt.start().turn(1.0)
    assert attempt._builder.metrics.snapshot()["Partition 0"]["processed"] == 1
    attempt.abandon()


class OwnCommits(CountingTask):
    """Counts in a group with a name of ours."""

    def init(self, context):
        super().init(context)
        for each in (context.task, context.container):
            each.metrics.counter("commit", "commits").inc(500)


def test_a_group_of_a_tasks_own_code_is_not_one_of_ours(snapshot_job):
    job = snapshot_job(OwnCommits)
    report = job.run()
    assert report.metrics["commit"]["commits"] < 500
    assert report.metrics["user:commit"]["commits"] == 1_000


def test_a_dashboard_made_for_samza_finds_a_tasks_stores_and_restores(snapshot_job, tmp_path):
    job = snapshot_job(**{"metrics.reporter.snap.interval": "60"})
    job.send(*((0, f"key-{n}", {"id": n}) for n in range(5)))
    job.run()
    shutil.rmtree(tmp_path)
    job.send((0, "key-1", {"id": 5}))
    job.run()
    groups = snapshots(job)[-1]["metrics"]
    cached, engine = (
        groups[f"org.apache.samza.storage.kv.{kind}Metrics"] for kind in ("CachedStore", "KeyValueStorageEngine")
    )
    expected = {"gets": 1, "puts": 1, "cache-hits": 0, "dirty-count": 0, "cache-size": 1}
    assert {name: cached[f"counts-{name}"] for name in expected} == expected
    assert (engine["counts-messages-restored"], engine["counts-messages-bytes"]) == (5, 5 * len(b"key-01"))
    assert groups["org.apache.samza.storage.kv.KeyValueStoreMetrics"]["counts-flushes"] >= 1


def test_a_container_that_fails_reports_before_it_ends(snapshot_job):
    job = snapshot_job(**{"metrics.reporter.snap.interval": "60"})
    job.send((0, "k", {"id": 1, "do": "fail"}))
    with pytest.raises(TaskFailed):
        job.run()
    assert len({snapshot["header"]["source"] for snapshot in snapshots(job)}) == len(snapshots(job))


def test_the_log_reporter_leaves_out_what_its_blacklist_matches(tmp_path, caplog):
    keys = {
        "metrics.reporters": "log",
        "metrics.reporter.log.class": "log",
        "metrics.reporter.log.blacklist": r"commit\..*",
    }
    job = MemoryJob(tmp_path, 1, **keys)
    with caplog.at_level(logging.INFO, "samzapy.metrics"):
        job.run()
    line, _ = [record.message for record in caplog.records if record.name == "samzapy.metrics"]
    metrics = json.loads(line)["metrics"]
    assert metrics["commit"] == {}
    assert "processed" in metrics["Partition 0"]
