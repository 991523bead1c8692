import os

import pytest

JOB = """
job.name=counts
task.class=counts:Task
task.inputs=sys.in
systems.sys.samza.factory=local
"""


@pytest.fixture
def logs(samzapy, tmp_path):
    """The folder of a job's logs."""
    (tmp_path / "job.properties").write_text(JOB)
    folder = tmp_path / "logs" / "counts-1"
    folder.mkdir(parents=True)
    return folder


def test_the_log_of_a_driver_is_printed_with_the_files_that_were_rotated_first(samzapy, logs):
    (logs / "driver.log.2").write_text("first\n")
    (logs / "driver.log.1").write_text("second\n")
    (logs / "driver.log").write_text("third\nhalf")
    assert samzapy("logs", "job.properties")[1].splitlines() == ["first", "second", "third"]


def test_a_container_has_its_own_file_or_its_lines_in_the_drivers(samzapy, logs):
    (logs / "container-0.log").write_text("own line\n")
    (logs / "driver.log").write_text("a [container 0]: x\nb [container 1, Partition 1]: y\nc [container 11]: z\n")
    assert samzapy("logs", "job.properties", "--container", "0")[1] == "own line\n"
    assert samzapy("logs", "job.properties", "--container", "1")[1] == "b [container 1, Partition 1]: y\n"


def test_a_run_in_one_process_has_the_containers_log_alone(samzapy, logs):
    (logs / "driver.log").write_text("an older run on Spark\n")
    (logs / "container-0.log").write_text("the newest run\n")
    os.utime(logs / "driver.log", (0, 0))
    assert samzapy("logs", "job.properties")[1] == "the newest run\n"


def test_a_job_that_has_not_run_here_is_an_error_with_the_folder(samzapy, logs):
    logs.rmdir()
    code, _, errors = samzapy("logs", "job.properties")
    assert code == 3
    assert errors == "error: logs/counts-1: no log; the job has not run here, or job.log.dir is another folder\n"
