"""Jobs on a real YARN of two hosts, with the driver on a host beside: executors, their Python, and what may be lost."""

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
from rigs.job_process import open_store_folders
from yarn_cluster import DRIVER, EXECUTOR
from yarn_job import HERE, THERE, WAIT_S, YarnJob

from samzapy.verify.processes import end, gone, until, workers

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]


@contextmanager
def running(job: YarnJob, *arguments: str):
    """`samzapy run`, ended in every case."""
    run = job.start(*arguments)
    try:
        yield run
    finally:
        run.close()


def settled(job: YarnJob, run, after: int = 0) -> dict:
    """The status once everything written is processed, with every container under a later epoch than `after`."""
    at_end: Callable[[dict], bool] = job.at_end()
    return run.until_status(
        lambda status: at_end(status) and min(c["epoch"] for c in status["containers"]) > after, WAIT_S
    )


def stop(run) -> None:
    run.terminate()
    assert run.wait(WAIT_S) == 0, run.errors


def test_executors_run_in_the_environment_that_was_packed_for_them(cluster, tmp_path, kafka, environment):
    python = {
        "job.spark.conf.spark.archives": f"{environment}#env",
        "job.spark.conf.spark.pyspark.python": "./env/bin/python",
    }
    job = YarnJob(cluster, tmp_path, kafka, **python)
    job.write()
    with running(job) as run:
        settled(job, run)
        (worker,) = workers(cluster.everything())
        assert worker.cmdline()[0] == "./env/bin/python"
        assert (Path(worker.cwd()) / "env" / "pyvenv.cfg").is_file()
        stop(run)
    job.check()


def test_a_standby_in_an_executor_of_its_own_takes_over_from_a_lost_one(cluster, tmp_path, kafka):
    job = YarnJob(cluster, tmp_path, kafka, **{"job.standbytasks.replication.factor": "2"})
    job.write()
    with running(job) as run:
        at_end = job.at_end()
        before = run.until_status(lambda status: at_end(status) and copied(status), WAIT_S)
        active, standby = sorted(cluster.processes(EXECUTOR), key=lambda each: has_copies(cluster, each))
        assert (has_copies(cluster, active), has_copies(cluster, standby)) == (False, True)
        job.write()
        end([active])
        after = settled(job, run, after=before["containers"][0]["epoch"])
        restored = [r for r in after["restored"] if r["epoch"] > before["containers"][0]["epoch"]]
        assert {each["source"].split(" + ")[0] for each in restored} == {"standby"}
        stop(run)
    job.check()


def copied(status: dict) -> bool:
    """Whether the standby has everything."""
    return all(each["phase"] == "running" and each["remaining"] == 0 for each in status["standbys"])


def has_copies(cluster, executor) -> bool:
    """Whether the stores that an executor has open are a standby's."""
    folders = {folder.name for folder in open_store_folders(executor, cluster.folder)}
    return any(name.endswith(".standby-1") for name in folders)


def test_a_job_does_not_need_the_resource_manager_until_it_needs_an_executor(cluster, tmp_path, kafka):
    job = YarnJob(cluster, tmp_path, kafka, **{"job.container.count": "2"})
    job.write()
    with running(job) as run:
        before = settled(job, run)
        cluster.kill_resource_manager()
        job.write()
        during = settled(job, run)
        assert [c["epoch"] for c in during["containers"]] == [c["epoch"] for c in before["containers"]]
        end(cluster.processes(EXECUTOR)[:1])
        job.write()
        cluster.start_resource_manager()
        after = settled(job, run)
        assert max(c["epoch"] for c in after["containers"]) > max(c["epoch"] for c in before["containers"])
        stop(run)
    job.check()
    assert cluster.application(job.name)["finalStatus"] == "SUCCEEDED"


def test_a_job_goes_on_elsewhere_when_a_node_manager_is_killed(cluster, tmp_path, kafka):
    """What it has started runs on: YARN gives it up, but does not end it. The application's master is on the other
    host."""
    job = YarnJob(cluster, tmp_path, kafka, **{"job.container.count": "3"})
    job.write()
    with running(job) as run:
        before = settled(job, run)
        (failing,) = (host for host in (HERE, THERE) if not cluster.processes(DRIVER, host))
        assert cluster.processes(EXECUTOR, failing)
        assert len(cluster.processes(EXECUTOR)) == 3
        left = cluster.kill_node_manager(failing)
        try:
            job.write()
            lost = max(c["epoch"] for c in before["containers"])
            at_end = job.at_end()
            run.until_status(lambda s: at_end(s) and max(c["epoch"] for c in s["containers"]) > lost, WAIT_S)
            until(lambda: all(map(gone, left)), lambda: f"left over: {[p for p in left if not gone(p)]}", WAIT_S)
            cluster.start_host(failing)
            job.write()
            settled(job, run)
            stop(run)
        finally:
            end(left)
    job.check()
