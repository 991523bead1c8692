"""Connections of strangers: they neither keep containers from the coordinator, nor fill its log."""

import logging
from contextlib import closing

import pytest
import urllib3
from jobs.job_models import job_model
from rigs.raw_connections import connect, is_closed

from samzapy.coordinator import server as server_module
from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport, Directive


@pytest.fixture
def service():
    running = CoordinatorService(Coordinator("job", JobSpec(job_model(), {}), 15.0), "token")
    yield running
    running.close()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(server_module, "SILENT_S", 0.2)


def test_a_thousand_silent_connections_do_not_keep_containers_out(service):
    early, late = CoordinatorClient(service.url, "token"), CoordinatorClient(service.url, "token")
    lease, _ = early.register("0")
    strangers = [connect(service) for _ in range(1_000)]
    assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.CONTINUE
    newest, _ = late.register("0")
    assert newest.report(ContainerReport("0", newest.epoch, "running")) is Directive.CONTINUE
    for each in (*strangers, early, late):
        each.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nhost"])
def test_a_connection_without_a_request_is_closed_in_time(short, service, sent):
    with connect(service) as silent:
        silent.sendall(sent)
        assert is_closed(silent)


def test_a_connection_that_has_made_a_request_stays(short, service):
    with closing(CoordinatorClient(service.url, "token")) as client:
        lease, _ = client.register("0")
        with connect(service) as silent:
            assert is_closed(silent)
        assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.CONTINUE
        assert client._pool.connection_from_url(service.url).num_connections == 1


def test_bytes_that_are_no_request_leave_no_line_in_the_log(service, caplog):
    with connect(service) as stranger:
        stranger.sendall(b"x\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 400")
    assert caplog.records == []


def test_a_program_that_embeds_a_job_gets_no_lines_of_its_server(caplog):
    caplog.set_level(logging.DEBUG)
    running = CoordinatorService(Coordinator("job", JobSpec(job_model(), {}), 15.0), "token")
    assert urllib3.request("GET", f"{running.url}/status", retries=False).status == 403
    running.close()
    running.close()
    assert [each for each in caplog.records if each.name.startswith("uvicorn")] == []
    logging.getLogger("uvicorn.error").info("a server of the program itself")
    assert [each.message for each in caplog.records][-1] == "a server of the program itself"
