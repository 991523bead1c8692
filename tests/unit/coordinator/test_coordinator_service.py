import json
import socket

import numpy as np
import pytest
import urllib3

from samzapy.api.stream import SystemStreamPartition
from samzapy.coordinator import service as service_module
from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import BODY_LIMIT, CoordinatorService
from samzapy.coordinator.wire import AttemptProcess, JobSpec
from samzapy.errors import EnvironmentFailure, RetriableError, TaskFailed, TaskMigrated
from samzapy.job.lease import ContainerReport, Directive
from samzapy.job.model import ContainerModel, JobModel, TaskModel
from samzapy.version import VERSION

TOKEN = "correct-horse"
MODEL = JobModel(
    (ContainerModel("0", (TaskModel("Partition 0", frozenset({SystemStreamPartition("m", "in", 0)}), 0),)),)
)


@pytest.fixture
def coordinator():
    return Coordinator("job", JobSpec(MODEL, {"job.name": "job", "k": "${env:K}"}), 15.0)


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
        method, service.url + path, body=body, headers={**sent, **headers}, retries=False, redirect=False
    )


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


def test_a_container_with_another_samzapy_than_the_drivers_is_refused_with_both_versions(client, monkeypatch):
    monkeypatch.setattr(service_module, "VERSION", "99.1")
    with pytest.raises(EnvironmentFailure) as caught:
        client.register("0")
    assert str(caught.value) == f"samzapy {VERSION} is installed for the executor's Python, the driver has 99.1"


def test_the_reason_of_a_failure_reaches_the_driver(client, coordinator):
    lease, _ = client.register("0")
    client.fail("0", lease.epoch, TaskFailed("m.in[0]@3: ValueError: no"))
    (failure,) = coordinator.status().failures
    assert (failure.error, failure.message, failure.exit_code) == ("TaskFailed", "m.in[0]@3: ValueError: no", 1)
    assert coordinator.status().containers[0].state == "lost"


def test_metrics_that_json_cannot_hold_are_left_out_and_numpys_are_numbers(client):
    lease, _ = client.register("0")
    metrics = {"g": {"nan": float("nan"), "inf": float("inf"), "n": 3, "x": np.float64(2.5)}}
    assert lease.report(ContainerReport("0", lease.epoch, "running", metrics=metrics)) is Directive.CONTINUE
    assert client.status()["containers"][0]["metrics"] == {"g": {"n": 3, "x": 2.5}}


def test_a_failure_that_quotes_a_lone_surrogate_reaches_the_driver(client, coordinator):
    lease, _ = client.register("0")
    client.fail("0", lease.epoch, TaskFailed("no key \ud800"))
    assert coordinator.status().failures[0].message == r"no key \ud800"


@pytest.mark.parametrize("path", ["/containers/0/attempts", "/containers/0/report", "/containers/0/failure", "/stop"])
def test_a_change_without_the_token_is_forbidden(service, coordinator, path):
    assert ask(service, "POST", path, token=None).status == 403
    assert ask(service, "POST", path, token="wrong").status == 403
    assert not coordinator.stopping
    assert coordinator.status().containers[0].attempts == 0


def test_an_attempt_hears_where_the_one_before_it_ran(client):
    first, second = AttemptProcess("machine", 11, 22, 33), AttemptProcess("machine", 44, 55)
    assert client.register("0", first)[0].predecessor is None
    assert client.register("0", second)[0].predecessor == first
    assert client.register("0")[0].predecessor == second
    assert client.register("0")[0].predecessor is None


@pytest.mark.parametrize("process", [{}, [], {"machine": "m", "pid": "1", "started": 2}, {"machine": 1, "pid": 1}])
def test_a_process_of_another_shape_is_refused(service, process):
    answer = ask(service, "POST", "/containers/0/attempts", body=json.dumps({"process": process}))
    assert answer.status == 400


@pytest.mark.parametrize("path", ["/", "/status", "/style.css", "/nowhere"])
def test_nothing_is_shown_without_the_token(service, path):
    answer = ask(service, "GET", path, token=None)
    assert answer.status == 403
    assert b"job" not in answer.data


def test_a_foreign_host_header_is_forbidden(service):
    assert ask(service, "GET", "/status", host="evil.example").status == 403


def test_a_browser_brings_the_token_once_and_can_then_read_but_not_change(service, coordinator):
    welcome = ask(service, "GET", f"/?token={TOKEN}", token=None)
    assert (welcome.status, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    pair = cookie.partition(";")[0]
    page = ask(service, "GET", "/", token=None, cookie=pair)
    assert page.status == 200
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert ask(service, "POST", "/stop", token=None, cookie=pair).status == 403
    assert not coordinator.stopping


def test_a_body_of_the_wrong_shape_is_refused_with_the_fields_name(service):
    answer = ask(service, "POST", "/containers/0/report", body=json.dumps({"epoch": "1", "phase": "running"}))
    assert (answer.status, answer.data) == (400, b"epoch: expected int, got str\n")
    assert ask(service, "POST", "/containers/0/report", body=b"{").status == 400
    assert ask(service, "POST", "/containers/0/report", body=b"[" * 100_000).status == 400


def test_a_body_beyond_the_limit_is_refused(service):
    assert ask(service, "POST", "/containers/0/report", body=b" " * (BODY_LIMIT + 1)).status == 413


def test_a_container_the_job_does_not_have_is_not_known(client):
    with pytest.raises(TaskMigrated):
        client.register("7")


def test_a_coordinator_with_another_token_tells_a_container_to_let_go(service, client):
    lease, _ = client.register("0")
    stranger = CoordinatorClient(service.url, "other")
    with pytest.raises(TaskMigrated):
        stranger.register("0")
    lease._client = stranger
    assert lease.report(ContainerReport("0", lease.epoch, "running")) is Directive.ABANDON


def test_no_answer_is_retriable(service, client):
    lease, _ = client.register("0")
    service.close()
    client.close()
    with pytest.raises(RetriableError, match="does not answer"):
        lease.report(ContainerReport("0", lease.epoch, "running"))


def test_a_taken_port_is_an_environment_failure(coordinator):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentFailure, match=f"cannot listen on 127.0.0.1:{port}"):
            CoordinatorService(coordinator, TOKEN, port=port)
