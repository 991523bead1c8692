import json
import os

import pytest

from samzapy.clock import Measured
from samzapy.config.supervision import LogConfig
from samzapy.container.supervision.logs import PageAddress, log_folder, process_logging
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport, Facts, PartitionLag, Stall
from samzapy.job.planner import ContainerModel, JobModel

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
    folder = tmp_path / ".samzapy" / "logs" / "counts-1"
    folder.mkdir(parents=True)
    return folder


def test_files_beside_a_log_that_it_did_not_rotate_are_left_out(samzapy, logs):
    for suffix in ("1.gz", "old", "1~", "07", "gz.1", "\u00b2"):
        (logs / f"driver.log.{suffix}").write_text("of another program\n")
    # As if it were renamed between the listing and the reading.
    (logs / "driver.log.3").symlink_to(logs / "renamed")
    (logs / "driver.log.10").write_text("first\n")
    (logs / "driver.log.2").write_text("second\n")
    (logs / "driver.log").write_text("third\n")
    assert samzapy("logs", "job.properties") == (0, "first\nsecond\nthird\n", "")


def test_a_container_has_its_own_file_or_its_lines_in_the_drivers(samzapy, logs):
    (logs / "container-0.log").write_text("own line\n")
    (logs / "driver.log").write_text("a [container 0]: x\nb [container 1, Partition 1]: y\nc [container 11]: z\n")
    assert samzapy("logs", "job.properties", "--container", "0")[1] == "own line\n"
    assert samzapy("logs", "job.properties", "--container", "1")[1] == "b [container 1, Partition 1]: y\n"


def test_a_job_that_has_not_run_here_is_an_error_with_the_folder(samzapy, logs):
    logs.rmdir()
    code, _, errors = samzapy("logs", "job.properties")
    assert code == 3
    assert (
        errors == "error: .samzapy/logs/counts-1: no log; the job has not run here, or job.log.dir is another folder\n"
    )


def test_the_status_shows_lag_and_stalls(samzapy, logs):
    spec = JobSpec(JobModel((ContainerModel("0", ()),)), {})
    job = Coordinator("counts", spec, 15.0)
    lease = LocalLease(job, "0")
    stalled = Stall("in process of sys.in[0]@10", 90.4, "  File x, line 3")
    facts = Facts(Measured({"sys.in[0]": PartitionLag(10, 50, 40, 2_500)}, job.now), stalled)
    lease.report(ContainerReport("0", lease.epoch, "running", processed=1_234, facts=facts))
    service = CoordinatorService(job, "acts")
    try:
        address = PageAddress(log_folder(LogConfig(), "counts-1"))
        address.write(service.page)
        assert (logs / "page.url").stat().st_mode & 0o777 == 0o600
        code, output, _ = samzapy("status", "job.properties")
    finally:
        service.close()
    address.remove()
    assert code == 0
    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert lines[0] == "counts: 1,234 messages, 0 commits, lag 40"
    assert lines[1] == "Container 0 is stuck: in process of sys.in[0]@10 for 90 s"
    assert 'next: samzapy replay job.properties --until "sys.in[0]@10"' in lines
    assert "0 running running 1,234 40 in process of sys.in[0]@10 for 90 s" in lines
    assert "0 sys.in[0] 10 50 40 2.5 s" in lines
    assert "File x, line 3" in lines
    assert address.read() is None


def test_the_processes_of_jobs_are_found_by_their_logs_with_their_pages(samzapy, logs):
    PageAddress(logs).write("http://127.0.0.1:1/?token=x")
    with process_logging(LogConfig(), "counts-1", "driver"), (logs / "driver.log").open():
        code, output, _ = samzapy("ps", "--json")
    (line,) = [row for row in json.loads(output)["rows"] if row["log"] == str(logs / "driver.log")]
    assert code == 0
    assert (line["job"], line["part"], line["pid"], line["page"]) == (
        "counts-1",
        "driver",
        os.getpid(),
        "http://127.0.0.1:1/?token=x",
    )
    assert str(logs) not in samzapy("ps")[1]
