"""Scripts that `spark-submit` brings to a real YARN, with the driver on this machine or in the cluster, and a packed
environment."""

import pytest
from yarn_job import WAIT_S, SubmittedJob

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_script_of_two_lines_runs_to_the_end_of_its_inputs(cluster, tmp_path, kafka, environment, mode):
    python = {"spark.archives": f"{environment}#env", "spark.pyspark.python": "./env/bin/python"}
    job = SubmittedJob(cluster, tmp_path, kafka, python)
    job.write()
    with job.submitted(mode, ", until_end=True") as process:
        assert process.wait(WAIT_S) == 0, job.words()
    assert cluster.application(job.name)["finalStatus"] == "SUCCEEDED"
    job.check()
