"""Endless jobs in YARN's cluster mode: the driver is on a host of the cluster, and may be lost with it or alone."""

import pytest
from yarn_cluster import DRIVER, EXECUTOR
from yarn_job import HERE, THERE, WAIT_S, SubmittedJob

from samzapy.verify.processes import end

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

TWO = {"job.container.count": "2"}


def newest(status):
    return max(each["epoch"] for each in status["containers"])


def ended_well(job, process, cluster):
    assert process.wait(WAIT_S) == 0, job.words()
    assert cluster.application(job.name)["finalStatus"] == "SUCCEEDED"
    job.check()


def test_a_driver_that_is_killed_is_started_again_and_nothing_is_lost_or_doubled(cluster, tmp_path, kafka):
    job = SubmittedJob(cluster, tmp_path, kafka, **TWO)
    job.write()
    with job.submitted("cluster") as process:
        before = job.settled()
        job.write()
        (driver,) = cluster.processes(DRIVER)
        end([driver])
        job.write()
        job.settled(after=newest(before))
        assert cluster.attempts(job.name) == 2
        job.drain()
        ended_well(job, process, cluster)


def test_a_job_whose_drivers_host_is_lost_goes_on_on_another_one(cluster, tmp_path, kafka):
    job = SubmittedJob(cluster, tmp_path, kafka, **TWO)
    job.write()
    with job.submitted("cluster") as process:
        before = job.settled()
        (lost,) = (host for host in (HERE, THERE) if cluster.processes(DRIVER, host))
        job.write()
        cluster.lose_host(lost)
        job.write()
        job.settled(after=newest(before))
        assert cluster.attempts(job.name) == 2
        job.drain()
        ended_well(job, process, cluster)


def test_a_drain_from_another_machine_ends_the_job_though_an_executor_is_lost_beside_it(cluster, tmp_path, kafka):
    job = SubmittedJob(cluster, tmp_path, kafka, **TWO)
    job.write()
    with job.submitted("cluster") as process:
        job.settled()
        job.write()
        end(cluster.processes(EXECUTOR)[:1])
        job.drain()
        ended_well(job, process, cluster)
