"""Jobs on a real YARN of two hosts, with the driver on a host beside: executors, their Python, and what may be lost."""

import signal
from collections.abc import Callable
from contextlib import closing

import pytest
from yarn_cluster import DRIVER, EXECUTOR
from yarn_job import HERE, THERE, WAIT_S, YarnJob

from samzapy.verify.processes import end, gone, until

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]


def settled(job: YarnJob, run, after: int = 0) -> dict:
    """The status once everything written is processed, with every container under a later epoch than `after`."""
    at_end: Callable[[dict], bool] = job.at_end()
    return run.until_status(
        lambda status: at_end(status) and min(c["epoch"] for c in status["containers"]) > after, WAIT_S
    )


def stop(run) -> None:
    run.terminate()
    assert run.wait(WAIT_S) == 0, run.errors


def test_a_job_does_not_need_the_resource_manager_until_it_needs_an_executor(cluster, tmp_path, kafka):
    job = YarnJob(cluster, tmp_path, kafka, **{"job.container.count": "2"})
    job.write()
    with closing(job.start()) as run:
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
    with closing(job.start()) as run:
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


@pytest.mark.parametrize("by", ["SIGPWR", "its ResourceManager"])
def test_a_decommissioned_executor_hands_its_container_over_without_a_failure(cluster, tmp_path, kafka, by):
    keys = {"job.container.count": "3", "job.spark.conf.spark.decommission.enabled": "true"}
    job = YarnJob(cluster, tmp_path, kafka, **keys)
    job.write()
    with closing(job.start()) as run:
        before = settled(job, run)
        (host,) = (host for host in (HERE, THERE) if not cluster.processes(DRIVER, host))
        leaving = cluster.processes(EXECUTOR, host)
        if by == "SIGPWR":
            del leaving[1:]
            leaving[0].send_signal(signal.SIGPWR)
        else:
            cluster.decommission(host)
        job.write()
        epoch, at_end = max(c["epoch"] for c in before["containers"]), job.at_end()
        run.until_status(lambda s: at_end(s) and max(c["epoch"] for c in s["containers"]) > epoch, WAIT_S)
        until(lambda: all(map(gone, leaving)), "an executor waited for its host to go", WAIT_S)
        assert settled(job, run)["failed"] == 0
        stop(run)
    job.check()
