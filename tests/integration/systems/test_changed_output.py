"""What becomes of a job whose output stream is changed while the job runs, through the command."""

import re
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from rigs.numbered_job import NumberedJob

from samzapy.verify.processes import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(params=["at-least-once", "exactly-once"])
def running(request, tmp_path, kafka, unique_topic):
    """(a job, its process), which has sent outputs."""
    job = NumberedJob(tmp_path, unique_topic("job"), kafka, 2, **{"task.guarantee": request.param})
    job.write(100)
    with closing(job.start("--runner", "local")) as process:
        until(lambda: sum(job.streams.ends(f"{job.name}-out").values()) >= 100, lambda: process.last_words)
        yield job, process


def last_error(process):
    (error,) = [line for line in process.errors.splitlines() if line.startswith("error: ")]
    return error


def test_an_output_that_takes_less_is_named_with_size_and_limit(running, kafka):
    job, process = running
    resource = ConfigResource(ResourceType.TOPIC, f"{job.name}-out")
    # The markers of transactions take 78 bytes.
    lower = ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(lower)
    admin = AdminClient({"bootstrap.servers": kafka})
    (answer,) = admin.incremental_alter_configs([resource]).values()
    answer.result(30)
    job.write(100)
    assert process.wait() == 1, process.errors
    error = last_error(process)
    assert f"kafka.{job.name}-out[" in error
    assert re.search(r"record of \d+ B( > |.* must be below its )max\.message\.bytes 100( |$)", error), error


def test_an_output_that_is_deleted_ends_the_run_because_it_does_not_exist(running, kafka_admin):
    job, process = running
    kafka_admin.delete(f"{job.name}-out")
    job.write(100)
    assert process.wait() == 3, process.errors
    assert f"topic '{job.name}-out' does not exist on system 'kafka'" in last_error(process)
