"""Strangers cannot keep containers from the coordinator, whatever they do with their connections."""

import asyncio
import itertools
import time
from contextlib import suppress

import pytest
from jobs.job_models import job_model
from rigs.raw_connections import connect, is_closed

from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.web import admission as admission_module
from samzapy.coordinator.web.admission import (
    ACCEPTED,
    IDLE_S,
    REQUEST_S,
    SECURED_STRANGERS,
    STRANGER_S,
    STRANGERS,
    Admission,
    Visit,
    strangers_of,
)
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport, Directive


class Rig:
    def __init__(self, strangers=3):
        self.admission = Admission(strangers)
        self.closed: list[str] = []

    def arrive(self, name, at=0.0):
        visit = Visit(lambda: self.closed.append(name), at)
        self.admission.arrive(visit)
        return visit

    def look(self, now):
        for visit in self.admission.overdue(now):
            visit.close()


def test_a_stranger_beyond_the_limit_closes_the_oldest_one_and_no_container():
    rig = Rig()
    rig.admission.trust(rig.arrive("container"))
    for name in "abcde":
        rig.arrive(name)
    assert rig.closed == ["a", "b"]
    assert (len(rig.admission), rig.admission.strangers) == (4, 3)


def test_a_connection_that_does_not_show_a_token_in_time_is_closed():
    rig = Rig()
    rig.admission.trust(rig.arrive("container"))
    rig.arrive("silent")
    rig.look(STRANGER_S)
    assert rig.closed == []
    rig.look(STRANGER_S + 0.1)
    assert rig.closed == ["silent"]
    assert len(rig.admission) == 1


def test_a_token_that_was_shown_too_late_does_not_bring_a_connection_back():
    rig = Rig()
    late = rig.arrive("late")
    rig.look(STRANGER_S + 0.1)
    rig.admission.trust(late)
    assert len(rig.admission) == 0


@pytest.mark.parametrize(("under_way", "allowed"), [(True, REQUEST_S), (False, IDLE_S)])
def test_a_slow_request_and_an_idle_connection_are_closed_though_they_have_shown_a_token(under_way, allowed):
    rig = Rig()
    visit = rig.arrive("container")
    rig.admission.trust(visit)
    visit.under_way = under_way
    rig.look(allowed)
    assert rig.closed == []
    rig.look(allowed + 0.1)
    assert rig.closed == ["container"]


def test_an_answer_that_goes_on_is_not_closed():
    rig = Rig()
    visit = rig.arrive("browser")
    rig.admission.trust(visit)
    visit.under_way, visit.is_answered = True, lambda: True
    rig.look(1_000_000.0)
    assert rig.closed == []


def test_an_answer_that_takes_its_time_is_not_closed():
    rig = Rig()
    visit = rig.arrive("browser")
    rig.admission.trust(visit)
    visit.under_way = visit.slow = True
    rig.look(1_000_000.0)
    assert rig.closed == []
    visit.under_way = False
    rig.look(1_000_000.0)
    assert rig.closed == ["browser"]


def test_reports_get_their_turn_between_the_ends_of_many_strangers(monkeypatch):
    monkeypatch.setattr(admission_module, "_LOOK_S", 0.0)
    monkeypatch.setattr(admission_module, "STRANGER_S", -1.0)
    strangers = 10 * ACCEPTED

    async def run():
        rig = Rig(strangers)
        for number in range(strangers):
            rig.arrive(number, at=asyncio.get_running_loop().time())
        watching = asyncio.ensure_future(rig.admission.watch())
        between = []
        while len(rig.closed) < strangers:
            await asyncio.sleep(0)
            between.append(len(rig.closed))
        watching.cancel()
        return {after - before for before, after in itertools.pairwise(between)}

    assert max(asyncio.run(run())) == ACCEPTED


@pytest.mark.parametrize(
    ("containers", "open_files", "secured", "most"),
    [
        (2, None, False, STRANGERS + 4),
        (1_000, 65_536, False, STRANGERS + 2_000),
        (2, 1_024, False, 512),
        (2, 1_024, True, SECURED_STRANGERS + 4),
    ],
)
def test_the_strangers_grow_with_the_job_and_leave_half_of_the_open_files(containers, open_files, secured, most):
    assert strangers_of(containers, open_files, secured) == most


@pytest.fixture
def service(monkeypatch):
    # Fewer than the connections of the tests.
    monkeypatch.setattr(admission_module, "STRANGERS", 256)
    running = CoordinatorService(Coordinator("job", JobSpec(job_model(), {}), 15.0), "token")
    yield running
    running.close()


def test_a_thousand_silent_connections_do_not_keep_a_container_out_nor_one_that_is_in(service):
    early = CoordinatorClient(service.url, "token")
    lease, _ = early.register("0")
    strangers = [connect(service) for _ in range(1_000)]
    assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.CONTINUE
    late = CoordinatorClient(service.url, "token")
    newest, _ = late.register("0")
    assert newest.report(ContainerReport("0", newest.epoch, "running")) is Directive.CONTINUE
    assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.ABANDON
    assert is_closed(strangers[0])
    for each in strangers:
        each.close()
    for client in (early, late):
        client.close()


def test_headers_that_come_a_byte_at_a_time_end_with_the_connection(monkeypatch, service):
    monkeypatch.setattr(admission_module, "STRANGER_S", 0.5)
    began = time.monotonic()
    with connect(service) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        end = began + 60
        try:
            while time.monotonic() < end:
                slow.sendall(b"x")
                slow.settimeout(0.2)
                try:
                    if slow.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
        except ConnectionError:
            pass
        assert time.monotonic() < end, "never closed"


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
