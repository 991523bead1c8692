"""The metrics of a job, as its driver serves them."""

from samzapy.coordinator.clocks import ClockStatus, Stall
from samzapy.coordinator.status import ContainerStatus, JobStatus
from samzapy.coordinator.views import OF_THE_DRIVER, job_series
from samzapy.job.lease import PartitionLag
from samzapy.job.lease import Stall as ContainerStall
from samzapy.metrics.families import PREFIX


def served(*containers, **fields):
    metrics = job_series(JobStatus(name="counts", containers=containers, **fields)).collect()
    assert {metric.name for metric in metrics} <= {PREFIX + family.name for family in OF_THE_DRIVER}
    return {(sample.name, frozenset(sample.labels.items())): sample.value for m in metrics for sample in m.samples}


def value(found, name, **labels):
    return found.get((f"samzapy_{name}", frozenset({"job": "counts", **labels}.items())))


def container(container_id="0", state="running", **fields):
    return ContainerStatus(id=container_id, state=state, **fields)


def test_a_job_without_reports_has_its_containers():
    found = served(container(state="waiting"))
    assert value(found, "container_up", container="0") == 0
    assert value(found, "containers", role="active", state="waiting", phase="") == 1
    assert value(found, "job_clock_timestamp_seconds") is None


def test_a_job_has_sums_and_clocks():
    clocks = ClockStatus(1_500, 1_000, {}, Stall("Partition 0", "", 7.0))
    found = served(
        container(processed=5, commits=2),
        container("1", processed=7, commits=1),
        seconds=3.5,
        failed=4,
        stopping=True,
        standbys=(container("0-1", phase="running"),),
        clocks=clocks,
    )
    expected = {
        "job_run_seconds": 3.5,
        "job_messages_processed_total": 12,
        "job_commits_total": 3,
        "job_failures_total": 4,
        "job_weakened_promises": 0,
        "job_stopping": 1,
        "job_clock_timestamp_seconds": 1.5,
        "job_checkpoint_timestamp_seconds": 1.0,
        "job_clock_stalled_seconds": 7.0,
    }
    assert {name: value(found, name) for name in expected} == expected
    assert value(found, "containers", role="active", state="running", phase="") == 2
    assert value(found, "containers", role="standby", state="running", phase="running") == 1


def test_a_container_has_its_restarts_restore_stall_and_numbers():
    metrics = {"container": {"cpu-s": 3.5}, "errors": {"process.dead-lettered": 2}}
    stalled = ContainerStall("broker unreachable", 45.0)
    found = served(container(state="lost", attempts=3, restoring=(3, 9), stalled=stalled, metrics=metrics))
    assert value(found, "container_up", container="0") == 0
    assert value(found, "container_restarts_total", container="0") == 2
    assert value(found, "restore_offsets_read", container="0") == 3
    assert value(found, "restore_offsets_expected", container="0") == 9
    assert value(found, "container_stalled_seconds", container="0") == 45
    assert value(found, "container_cpu_seconds_total", container="0") == 3.5
    assert value(found, "errors_total", container="0", stage="process", action="dead-lettered") == 2


def test_lag_is_known_per_partition_and_for_the_furthest_of_a_container():
    lags = {"kafka.in[0]": PartitionLag(5, 7, 2, 1_500), "kafka.in[1]": PartitionLag(5, 5, 0)}
    found = served(container(positions={"k.x[0]": 1}, lags=lags, measured_at=4.0), at=9.0)
    place = {"container": "0", "stream": "kafka.in", "partition": "0"}
    assert value(found, "partition_position", **place) == 5
    assert value(found, "partition_end_offset", **place) == 7
    assert value(found, "partition_lag_messages", **place) == 2
    assert value(found, "partition_oldest_unread_seconds", **place) == 1.5
    assert value(found, "container_lag_max_messages", container="0") == 2
    assert value(found, "lag_age_seconds", container="0") == 5
    other = {"container": "0", "stream": "k.x", "partition": "0"}
    assert (value(found, "partition_position", **other), value(found, "partition_lag_messages", **other)) == (1, None)
