"""Scripts that `spark-submit` brings to a real YARN, with the driver on this machine or in the cluster."""

from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from yarn_cluster import DRIVER, EXECUTOR
from yarn_job import WAIT_S, SubmittedJob

from samzapy.cli.main import cli
from samzapy.verify.processes import end, until, with_children

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(500)]


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


def test_in_cluster_mode_yarn_starts_a_lost_driver_again_and_a_drain_ends_the_job(
    cluster, tmp_path, kafka, environment
):
    job = SubmittedJob(cluster, tmp_path, kafka, environment, **{"job.container.count": "3"})
    job.write()
    with submitted(job, cluster, "cluster") as process:

        def settled(after=0):
            at_end = job.at_end()

            def look():
                assert process.poll() is None, job.log.read_text() + cluster.logs(job.name)
                found = job.status()
                newest = found is not None and min(each["epoch"] or 0 for each in found["containers"]) > after
                return found if newest and at_end(found) else None

            return until(look, lambda: f"{job.status()} {cluster.logs(job.name)}", WAIT_S)

        before = settled()
        assert len(cluster.processes(EXECUTOR)) == 3
        job.write()
        end(cluster.processes(DRIVER))
        job.write()
        settled(after=max(each["epoch"] for each in before["containers"]))
        drained = CliRunner().invoke(cli, ["drain", str(job.folder / "job.properties")], catch_exceptions=False)
        assert drained.exit_code == 0, drained.stderr
        assert process.wait(WAIT_S) == 0, job.log.read_text()
    assert cluster.application(job.name)["finalStatus"] == "SUCCEEDED"
    job.check()
