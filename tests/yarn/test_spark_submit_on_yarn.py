"""Scripts that `spark-submit` brings to a real YARN, with the driver on this machine or in the cluster."""

from contextlib import contextmanager

import pytest
from yarn_job import WAIT_S, SubmittedJob

from samzapy.verify.processes import end, with_children

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


@contextmanager
def submitted(job, cluster, *arguments):
    """The process of `spark-submit`, and the application, ended in every case."""
    process = job.submit(*arguments)
    try:
        yield process
    finally:
        end(with_children(process.pid) if process.poll() is None else [])
        process.wait()
        cluster.end_application(job.name)


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_script_of_two_lines_runs_to_the_end_of_its_inputs(cluster, tmp_path, kafka, environment, mode):
    job = SubmittedJob(cluster, tmp_path, kafka, environment)
    job.write()
    with submitted(job, cluster, mode, ", until_end=True") as process:
        assert process.wait(WAIT_S) == 0, job.log.read_text() + cluster.logs(job.name)
    assert cluster.application(job.name)["finalStatus"] == "SUCCEEDED"
    job.check()
