"""The coordinator with TLS: containers pin its certificate, strangers' handshakes cost them their place and nobody
else's."""

from contextlib import closing
from datetime import datetime, timezone

import pytest
import urllib3
from jobs.job_models import job_model

from samzapy.admin.queries import status_of
from samzapy.config.loader import load_job
from samzapy.container.supervision.logs import PageAddress, log_folder
from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.server import made_for
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import RetriableError
from samzapy.job.lease import ContainerReport, Directive

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def running(lease):
    return ContainerReport("0", lease.epoch, "running")


@pytest.fixture(scope="module")
def identity():
    return made_for("127.0.0.1", NOW)


@pytest.fixture
def service(identity):
    served = CoordinatorService(
        Coordinator("job", JobSpec(job_model(), {}), 15.0), "token", Addresses(identity=identity, page_port=0)
    )
    yield served
    served.close()


def client_of(service):
    return CoordinatorClient(service.address.url, "token", service.address.fingerprint)


def port_of(service):
    return int(service.url.rpartition(":")[2])


def test_a_container_registers_and_reports_over_tls(service):
    assert service.url.startswith("https://")
    with closing(client_of(service)) as client:
        lease, _ = client.register("0")
        assert [lease.report(running(lease)) for _ in range(3)] == [Directive.CONTINUE] * 3
        assert client.status()["containers"][0]["state"] == "running"


def test_another_certificate_gets_no_token(service):
    other = made_for("127.0.0.1", NOW)
    with (
        closing(CoordinatorClient(service.url, "token", other.fingerprint)) as client,
        pytest.raises(RetriableError, match="does not show the certificate of this run"),
    ):
        client.register("0")
    with closing(client_of(service)) as client:
        assert client.status()["containers"][0]["attempts"] == 0


def test_the_port_of_containers_has_tls_and_the_one_for_people_none(service):
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", f"http://127.0.0.1:{port_of(service)}/healthz", retries=False, timeout=30)
    assert service.page.startswith("http://127.0.0.1:")
    answer = urllib3.request("GET", service.page, retries=False, redirect=False, timeout=30)
    assert answer.status == 303
    assert "secure" not in answer.headers["set-cookie"].lower()


def test_a_page_with_tls_gives_a_cookie_that_only_tls_carries(service):
    with urllib3.PoolManager(cert_reqs="CERT_NONE", assert_fingerprint=service.address.fingerprint) as pool:
        url = f"{service.url}/?token={service.tokens.read}"
        answer = pool.request("GET", url, retries=False, redirect=False, timeout=30)
    assert answer.status == 303
    assert "secure" in answer.headers["set-cookie"].lower()


def test_a_command_finds_the_page_by_its_fingerprint(identity, tmp_path):
    keys = {"task.class": "a:B", "task.inputs": "memory.in", "systems.memory.samza.factory": "memory"}
    config = load_job({"job.name": "job", "job.log.dir": str(tmp_path), **keys})
    served = CoordinatorService(
        Coordinator("job", JobSpec(job_model(), {}), 15.0), "token", Addresses(identity=identity)
    )
    try:
        assert served.pinned_page == f"{served.page}#{identity.fingerprint}"
        PageAddress(log_folder(config.supervision.log, config.job_name)).write(served.pinned_page)
        assert status_of(config)["job"] == "job"
    finally:
        served.close()
