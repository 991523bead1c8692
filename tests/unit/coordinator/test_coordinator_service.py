import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from jobs.job_models import job_model

from samzapy.coordinator import service as service_module
from samzapy.coordinator.client import ANSWER_S, CONNECT_S, CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.wire import Answer, AttemptProcess, Heartbeat, JobSpec, Place
from samzapy.errors import EnvironmentFailure, RetriableError, TaskFailed, TaskMigrated
from samzapy.job.lease import ContainerReport, Directive
from samzapy.testing import ManualClock
from samzapy.version import VERSION

TOKEN = "correct-horse"


@pytest.fixture
def coordinator():
    return Coordinator("job", JobSpec(job_model(), {"job.name": "job", "k": "${env:K}"}), 15.0)


@pytest.fixture
def service(coordinator):
    running = CoordinatorService(coordinator, TOKEN)
    yield running
    running.close()


@pytest.fixture
def client(service):
    made = CoordinatorClient(service.url, TOKEN)
    yield made
    made.close()


def ask(service, method, path, *, token=TOKEN, body=None, **headers):
    sent = {"authorization": f"Bearer {token}"} if token else {}
    return urllib3.request(
        method, service.url + path, body=body, headers={**sent, **headers}, retries=False, redirect=False, timeout=60
    )


def test_calls_of_several_threads_drop_no_connection(client, caplog, monkeypatch):
    together, request = threading.Barrier(4), urllib3.connectionpool.HTTPConnectionPool._make_request

    def at_once(*args, **more):
        together.wait(30)
        return request(*args, **more)

    monkeypatch.setattr(urllib3.connectionpool.HTTPConnectionPool, "_make_request", at_once)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: client.status(), range(4)))
    assert caplog.messages == []


def test_a_call_has_timeouts_for_its_connection_and_its_answer(client, monkeypatch):
    waits = []
    request = urllib3.PoolManager.request

    def noted(pool, *args, timeout, **more):
        waits.append((timeout.total, timeout.connect_timeout, timeout.read_timeout))
        return request(pool, *args, timeout=timeout, **more)

    monkeypatch.setattr(urllib3.PoolManager, "request", noted)
    client.status()
    assert waits == [(None, CONNECT_S, ANSWER_S)]


def test_a_container_registers_reports_and_hears_what_to_do(client, coordinator):
    lease, spec = client.register("0")
    assert spec == coordinator.spec
    assert lease.duration_s == 15.0
    told = ContainerReport(
        "0",
        lease.epoch,
        "running",
        processed=5,
        positions={"m.in[0]": 5},
        restored={"Partition 0/s": (2, 0.25, "changelog")},
        restoring={"Partition 0/t": (1, 9)},
        metrics={"g": {"n": 1.5}},
        commits=1,
    )
    assert lease.report(told) is Directive.CONTINUE
    status = client.status()
    assert (status["processed"], status["commits"]) == (5, 1)
    assert status["restored"][0]["source"] == "changelog"
    assert status["containers"][0]["restoring"] == [1, 9]
    client.stop()
    assert lease.report(told) is Directive.STOP
    client.register("0")
    assert lease.report(told) is Directive.ABANDON


def test_a_container_with_another_samzapy_is_refused_with_both_versions(client, monkeypatch):
    monkeypatch.setattr(service_module, "VERSION", "99.1")
    with pytest.raises(EnvironmentFailure) as caught:
        client.register("0")
    installed = f"samzapy {VERSION} is installed for the executor's Python"
    assert str(caught.value) == f"{installed}, the driver has 99.1: install 99.1 there"


def test_the_reason_of_a_failure_reaches_the_driver(client, coordinator):
    lease, _ = client.register("0")
    client.fail("0", lease.epoch, TaskFailed("m.in[0]@3: ValueError: no"))
    (failure,) = coordinator.status().failures
    assert (failure.error, failure.message, failure.exit_code) == ("TaskFailed", "m.in[0]@3: ValueError: no", 1)
    assert coordinator.status().containers[0].state == "lost"


@pytest.mark.parametrize(
    "path", ["/containers/0/attempts", "/containers/0/heartbeat", "/containers/0/failure", "/stop"]
)
def test_a_change_without_the_token_is_forbidden(service, coordinator, path):
    assert ask(service, "POST", path, token=None).status == 403
    for token in ("wrong", service.tokens.read, service.tokens.cookie):
        assert ask(service, "POST", path, token=token).status == 403
    assert not coordinator.stopping
    assert coordinator.status().containers[0].attempts == 0


def test_an_attempt_hears_where_the_one_before_it_ran(client):
    first, second = AttemptProcess("machine", 11, 22, 33), AttemptProcess("machine", 44, 55)
    assert client.register("0", first)[0].predecessor is None
    assert client.register("0", second)[0].predecessor == first
    assert client.register("0")[0].predecessor == second
    assert client.register("0")[0].predecessor is None


@pytest.mark.parametrize("path", ["/", "/status", "/records", "/events", "/containers/0/metrics", "/nowhere"])
def test_nothing_is_shown_without_the_token(service, path):
    answer = ask(service, "GET", path, token=None)
    assert answer.status == 403
    assert b"job" not in answer.data


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "10.1.2.3", ":80"]
)
def test_a_foreign_host_header_is_forbidden(service, host):
    for method in ("GET", "POST"):
        answer = ask(service, method, "/status", host=host)
        assert (answer.status, answer.data) == (403, b"unknown host: job.page.hosts has the names that are allowed\n")


@pytest.mark.parametrize("host", ["views.prod.svc", "views.prod.svc:80", "Views.Prod.SVC.:443", "views:7070"])
def test_requests_may_use_the_names_of_the_job_file_at_any_port(coordinator, host):
    service = CoordinatorService(coordinator, TOKEN, Addresses(names=("views", "views.prod.svc")))
    try:
        assert ask(service, "GET", "/status", host=host).status == 200
        assert ask(service, "GET", "/status", token=None, host=host).status == 403
        assert ask(service, "POST", "/stop", host=host).status == 200
        assert coordinator.stopping
        assert ask(service, "GET", "/status", host="prod.svc").status == 403
    finally:
        service.close()


@pytest.mark.parametrize("name", ["act", "read"])
def test_a_browser_brings_a_token_once_and_can_then_read_but_not_change(service, coordinator, name):
    welcome = ask(service, "GET", f"/?token={getattr(service.tokens, name)}", token=None)
    assert (welcome.status, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    pair = cookie.partition(";")[0]
    assert TOKEN not in cookie
    assert service.tokens.read not in cookie
    assert ask(service, "GET", "/status", token=pair.partition("=")[2]).status == 403, "a cookie is no token"
    assert ask(service, "GET", f"/?token={pair.partition('=')[2]}", token=None).status == 403
    page = ask(service, "GET", "/", token=None, cookie=pair)
    assert page.status == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert ask(service, "POST", "/stop", token=None, cookie=pair).status == 403
    assert not coordinator.stopping


def test_the_address_that_is_printed_can_only_read(service, coordinator):
    token = service.page.partition("?token=")[2]
    assert TOKEN not in service.page
    assert ask(service, "GET", "/status", token=token).status == 200
    refused = ask(service, "POST", "/stop", token=token)
    assert (refused.status, refused.data) == (403, b"this token may only read\n")
    assert not coordinator.stopping


def test_a_body_of_the_wrong_shape_is_refused_with_the_fields_name(service):
    answer = ask(service, "POST", "/containers/0/heartbeat", body=json.dumps({"report": [], "sequence": 1}))
    assert (answer.status, answer.data) == (400, b"report: expected object, got array\n")
    assert ask(service, "POST", "/containers/0/heartbeat", body=b"{").status == 400
    assert ask(service, "POST", "/containers/0/heartbeat", body=b"[" * 100_000).status == 400


def test_a_bug_in_the_coordinator_fails_one_report_and_not_the_next(client, coordinator, monkeypatch):
    lease, _ = client.register("0")
    report = ContainerReport("0", lease.epoch, "running")
    with monkeypatch.context() as broken:
        broken.setattr(coordinator, "report", lambda report, **_: 1 / 0)
        with pytest.raises(RetriableError, match="ZeroDivisionError"):
            lease.report(report)
    assert lease.report(report) is Directive.CONTINUE


def test_a_coordinator_that_does_not_know_a_container_tells_it_to_let_go(service, client):
    lease, _ = client.register("0")
    stranger = CoordinatorClient(service.url, "other")
    for caller, container in ((stranger, "0"), (client, "7")):
        with pytest.raises(TaskMigrated):
            caller.register(container)
    lease._client = stranger
    assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.ABANDON


def test_a_taken_port_is_an_environment_failure(coordinator):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentFailure) as caught:
            CoordinatorService(coordinator, TOKEN, Addresses(port=port))
    assert str(caught.value) == (
        f"the driver cannot listen on 127.0.0.1:{port} (Address already in use): choose another port with "
        "job.page.port or job.spark.coordinator.port, or 0 for any free one"
    )


def test_a_status_names_tasks_of_partitions_and_hosts_of_containers(service, client):
    process = AttemptProcess("machine", 7, 1, place=Place("worker-7"))
    client.register("0", process)
    extras = client.status()["page"]
    assert extras["tasks"] == {"m.in[0]": "Partition 0"}
    assert extras["hosts"] == {"0": "worker-7"}


def test_a_process_whose_attempt_has_ended_well_is_no_predecessor(client, coordinator):
    first = AttemptProcess("machine", 11, 22, 33)
    lease, _ = client.register("0", first)
    lease.report(ContainerReport("0", lease.epoch, "done"))
    assert coordinator.process("0") == first
    assert client.register("0")[0].predecessor is None


def test_a_process_that_has_another_container_now_is_no_predecessor():
    coordinator = Coordinator("job", JobSpec(job_model(2), {"job.name": "job"}), 15.0)
    first, second, third = (AttemptProcess("machine", 11, 22, spark_task) for spark_task in (33, 34, 35))
    coordinator.register("0", first)
    coordinator.register("1", second)
    assert (coordinator.predecessor("0"), coordinator.predecessor("1")) == (None, second)
    coordinator.register("0", third)
    assert (coordinator.predecessor("0"), coordinator.predecessor("1")) == (third, None)


def test_a_heartbeat_that_arrives_after_a_later_one_changes_nothing():
    clock = ManualClock()
    coordinator = Coordinator("job", JobSpec(job_model(), {}), 15.0, clock)
    service = CoordinatorService(coordinator, TOKEN)
    client = CoordinatorClient(service.url, TOKEN)

    def beat(sequence, processed):
        report = ContainerReport("0", lease.epoch, "running", processed=processed)
        return client.call(Answer, "POST", "/containers/0/heartbeat", Heartbeat(report, sequence)).directive

    try:
        lease, _ = client.register("0")
        assert beat(2, 200) is Directive.CONTINUE
        clock.advance(15.0)
        coordinator.stop()
        assert beat(1, 100) is Directive.STOP
        assert coordinator.status().containers[0].state == "lost"
        beat(3, 210)
        assert (coordinator.status().containers[0].state, coordinator.status().processed) == ("running", 210)
    finally:
        client.close()
        service.close()
