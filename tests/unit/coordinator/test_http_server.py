"""Connections of strangers: they neither keep containers from the coordinator, nor fill its log."""

import logging
import time
from contextlib import closing, suppress

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


def test_headers_that_come_byte_by_byte_end_with_the_connection(short, service):
    end = time.monotonic() + 60
    with connect(service) as slow, suppress(ConnectionError):
        slow.settimeout(0.1)
        while time.monotonic() < end:
            slow.sendall(b"x")
            with suppress(TimeoutError):
                if slow.recv(1) == b"":
                    break
    assert time.monotonic() < end, "never closed"


def test_a_connection_that_has_made_a_request_stays(short, service):
    with closing(CoordinatorClient(service.url, "token")) as client:
        lease, _ = client.register("0")
        with connect(service) as silent:
            assert is_closed(silent)
        assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.CONTINUE
        assert client._pool.connection_from_url(service.url).num_connections == 1


def test_headers_without_an_end_are_refused(service):
    with connect(service) as endless:
        try:
            for _ in range(10_000):
                endless.sendall(b"x" * 1_000)
        except ConnectionError:
            return
        assert is_closed(endless) or endless.recv(100).startswith(b"HTTP/1.1 400")


def test_bytes_that_are_no_request_leave_no_line_in_the_log(service, caplog):
    with connect(service) as stranger:
        stranger.sendall(b"x\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 400")
    assert caplog.records == []


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("path", [b"/stop", b"/status", b"/healthz"])
def test_a_body_that_is_not_http_leaves_no_line_in_the_log(service, caplog, path, at_once):
    head = b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n" % path
    with connect(service) as stranger, suppress(ConnectionError):
        for part in [head + b"ZZZ\r\n"] if at_once else [head + b"1", b"\r\nxZZZ\r\n"]:
            stranger.sendall(part)
        while stranger.recv(4_096):
            pass
    with connect(service) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 403")
    assert [record.message for record in caplog.records] == []


def test_a_refused_request_closes_its_connection(service):
    with connect(service) as stranger:
        stranger.sendall(b"GET /status HTTP/1.1\r\nhost: " + service.url.removeprefix("http://").encode() + b"\r\n\r\n")
        answer = b""
        while part := stranger.recv(4_096):
            answer += part
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"connection: close" in answer


def test_a_program_that_embeds_a_job_gets_no_lines_of_its_server(caplog):
    caplog.set_level(logging.DEBUG)
    running = CoordinatorService(Coordinator("job", JobSpec(job_model(), {}), 15.0), "token")
    assert urllib3.request("GET", f"{running.url}/status", retries=False).status == 403
    running.close()
    running.close()
    assert [each for each in caplog.records if each.name.startswith("uvicorn")] == []
    logging.getLogger("uvicorn.error").info("a server of the program itself")
    assert [each.message for each in caplog.records][-1] == "a server of the program itself"
