"""A run's coordinator is open to people, tools and probes, on either runner."""

import re

import pytest
import urllib3
from jobs.job_models import job_model
from jobs.query_job import QUERY_JOB

from samzapy.clock import Measured
from samzapy.config.loader import load_job
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.service import Addresses
from samzapy.coordinator.status import ContainerStatus
from samzapy.coordinator.views import are_ready, job_series
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import EnvironmentFailure
from samzapy.job.lease import NO_FACTS, ContainerReport, Facts, PartitionLag
from samzapy.metrics.registry import as_text
from samzapy.runner.base import run_token
from samzapy.runner.driver import serve
from samzapy.testing import ManualClock


@pytest.fixture
def coordinator():
    return Coordinator("job", JobSpec(job_model(), {}), 15.0)


@pytest.fixture
def service(coordinator):
    running = serve(load_job(QUERY_JOB), coordinator, "token", Addresses(page_port=0))
    yield running
    running.close()


def get(service, path, **headers):
    return urllib3.request("GET", service.url + path, headers=headers, retries=False, redirect=False, timeout=60)


def until_ok(service, path):
    for _ in range(1_000):
        answer = get(service, path)
        if answer.status == 200:
            return answer.data
    raise AssertionError(f"{path} is never 200")


def test_a_probe_needs_no_token_and_hears_one_word(service, coordinator):
    assert (get(service, "/healthz").status, get(service, "/healthz").data) == (200, b"ok\n")
    waiting = get(service, "/readyz", host="10.1.2.3:8080")
    assert (waiting.status, waiting.data) == (503, b"not well\n")
    lease = LocalLease(coordinator, "0")
    lease.report(ContainerReport("0", lease.epoch, "running"))
    assert until_ok(service, "/readyz") == b"ok\n"


@pytest.mark.parametrize(
    ("state", "phase", "ready"),
    [
        ("running", "running", True),
        ("running", "done", True),
        ("done", "done", True),
        ("running", "restoring", False),
        ("running", "", False),
        ("waiting", "", False),
        ("lost", "running", False),
    ],
)
def test_a_job_is_ready_when_every_container_processes(state, phase, ready):
    processing, other = (
        ContainerStatus(id=name, state=at[0], phase=at[1], attempts=1, epoch=1)
        for name, at in (("0", ("running", "running")), ("1", (state, phase)))
    )
    assert are_ready([processing, other]) == ready


def test_a_job_is_not_ready_while_nothing_is_heard_of_a_containers_new_attempt(coordinator):
    lease = LocalLease(coordinator, "0")
    lease.report(ContainerReport("0", lease.epoch, "running"))
    assert are_ready(coordinator.status().containers)
    LocalLease(coordinator, "0")
    assert not are_ready(coordinator.status().containers)


def test_a_job_with_a_stale_or_unknown_lag_is_not_ready():
    hand = ManualClock()
    coordinator = Coordinator("job", JobSpec(job_model(), {}), 15.0, hand)
    lease, positions = LocalLease(coordinator, "0"), {"kafka.in[0]": 3}

    def is_ready(lags=None):
        facts = NO_FACTS if lags is None else Facts(Measured(lags, hand.monotonic()))
        lease.report(ContainerReport("0", lease.epoch, "running", positions=positions, facts=facts))
        return are_ready(coordinator.status().containers)

    assert not is_ready()
    assert is_ready({"kafka.in[0]": PartitionLag(3, 10, 7)})
    hand.advance(16)
    assert not is_ready()
    text = as_text(job_series(coordinator.status())).decode()
    assert 'samzapy_lag_age_seconds{container="0",job="job"} 16.0' in text
    assert "samzapy_partition_position{" in text
    for name in ("partition_end_offset", "partition_lag", "container_lag_max", "partition_oldest_unread"):
        assert f"samzapy_{name}" not in text
    assert is_ready({"kafka.in[0]": PartitionLag(3, 10, 7)})


def test_a_job_that_stops_is_alive_and_dead_once_its_run_is_taken_over(service, coordinator):
    lease = LocalLease(coordinator, "0")
    lease.report(ContainerReport("0", lease.epoch, "running"))
    coordinator.stop()
    assert (get(service, "/healthz").status, get(service, "/readyz").status) == (200, 503)
    coordinator.abandon("taken over by another run")
    assert (get(service, "/healthz").status, get(service, "/readyz").status) == (503, 503)


def test_metrics_need_a_token(service):
    pytest.importorskip("prometheus_client")
    assert get(service, "/metrics").status == 403
    answer = get(service, "/metrics", authorization=f"Bearer {service.tokens.read}")
    assert answer.status == 200
    assert re.search(rb"^samzapy_", answer.data, re.MULTILINE)


def test_the_token_of_the_environment_is_taken_and_else_one_is_drawn(monkeypatch):
    monkeypatch.setenv("SAMZAPY_TOKEN", "given\n")
    assert run_token() == "given"
    monkeypatch.setenv("SAMZAPY_TOKEN", "two\nlines")
    with pytest.raises(EnvironmentFailure, match="SAMZAPY_TOKEN: expected one line of ASCII characters, "):
        run_token()
    monkeypatch.delenv("SAMZAPY_TOKEN")
    assert len(run_token()) > 30
    assert run_token() != run_token()
