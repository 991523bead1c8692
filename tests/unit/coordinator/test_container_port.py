"""The HTTP port of a container: its metrics with a token, questions of the driver, and what passes on to it."""

import socket
from contextlib import ExitStack, closing

import pytest
import urllib3
from jobs.query_job import QUERY_JOB, engine_with

from samzapy.api.stream import SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.coordinator.client import CoordinatorClient, pinned_to
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.port import PortSettings, container_port
from samzapy.coordinator.server import Tokens
from samzapy.coordinator.service import Addresses
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport, HttpAddress
from samzapy.job.planner import ContainerModel, JobModel, TaskModel
from samzapy.metrics import Registry
from samzapy.queries.committed import Answer, CommittedStores, PublishedStore, Question, pack, unpack
from samzapy.runner.driver import serve
from samzapy.verify.processes import until

TOKEN = "correct-horse"
TASK = TaskModel("Partition 0", frozenset({SystemStreamPartition("m", "in", 0)}), 0)
STANDBY = ContainerModel("0-1", (TASK,))
MODEL = JobModel((ContainerModel("0", (TASK,)),), (STANDBY,))


class Port:
    """A port in a job of one container, and its driver."""

    def __init__(self, opened, *, model=MODEL.containers[0], secure=False, host="127.0.0.1", **keys):
        flat = QUERY_JOB | {key.replace("_", "."): value for key, value in keys.items()}
        self.coordinator = Coordinator("j", JobSpec(MODEL, flat), 15.0)
        self.metrics, stores = Registry(), CommittedStores()
        self.metrics.gauge("Partition 0", "processed.kafka.in").set(7)
        stores.publish({"counts": {0: PublishedStore(engine_with({b"a": b"1"}))}})
        self.config, self.lease = load_job(flat), LocalLease(self.coordinator, model.id)
        settings = PortSettings(host, TOKEN, secure)
        self.context = container_port(settings, self.config, model, self.lease, self.metrics, stores)
        opened.enter_context(self.context)
        self.lease.report(ContainerReport(model.id, self.lease.epoch, "running"))
        self._pool = opened.enter_context(
            urllib3.PoolManager(**pinned_to(self.lease.port and self.lease.port.fingerprint))
        )

    def ask(self, path, token=TOKEN, method="GET", url=None, **more):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        url = url or self.lease.port.url
        return self._pool.request(method, url + path, headers=headers, retries=False, timeout=30, **more)


@pytest.fixture
def port():
    with ExitStack() as opened:
        yield lambda **more: Port(opened, **more)


def test_the_series_of_the_tasks_are_served_while_the_container_runs():
    with ExitStack() as opened:
        port = Port(opened)
        answer = port.ask("/metrics")
        number = int(port.lease.port.url.rpartition(":")[2])
    assert 'container="0",job="j",stream="kafka.in",task="Partition 0"} 7.0' in answer.data.decode()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert port.lease.port is None
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", number)) != 0


def test_a_scrape_needs_a_token_that_reads_a_question_one_that_acts(port):
    served, tokens = port(), Tokens(TOKEN)
    question = pack(Question("counts", None, None, 10, 1_000))
    for path in ("/metrics", "/snapshot"):
        statuses = [served.ask(path, token).status for token in (None, "wrong", tokens.cookie, tokens.read, TOKEN)]
        assert statuses == [403, 403, 403, 200, 200]
    for token in (None, "wrong", tokens.read):
        assert served.ask("/questions", token, "POST", body=question).status == 403
    answer = served.ask("/questions", method="POST", body=question)
    assert [entry.value for entry in unpack(Answer, answer.data).entries] == [b"1"]
    assert served.ask("/questions", method="POST", body=b"no").status == 400
    assert served.ask("/other").status == 404
    assert served.ask(f"/?token={tokens.read}", None).status == 403, "a port gives no cookies"


def test_without_queries_nothing_is_answered_about_stores(port):
    served = port(job_query_enabled="false")
    assert served.ask("/questions", method="POST", body=pack(Question("counts", None, None, 1, 1))).status == 404


def test_a_port_that_is_taken_is_replaced_and_a_standby_takes_any(port, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        first = port(metrics_prometheus_port=number)
        standby = port(model=STANDBY, metrics_prometheus_port=number)
    assert first.ask("/metrics").status == standby.ask("/metrics").status == 200
    assert f"metrics.prometheus.port: a container cannot listen on 127.0.0.1:{number}" in caplog.text


def test_a_container_that_cannot_listen_runs_without_a_port(port, caplog):
    served = port(host="192.0.2.1")
    assert served.lease.port is None
    assert "cannot listen on 192.0.2.1:0" in caplog.text


def test_with_tls_a_port_shows_the_certificate_that_it_reports(port):
    served = port(secure=True)
    assert served.lease.port.url.startswith("https://127.0.0.1:")
    assert served.coordinator.ports["0"] == served.lease.port
    assert served.ask("/metrics").status == 200


@pytest.mark.parametrize("secure", [False, True])
def test_the_driver_passes_scrapes_on_with_the_token_that_reads(port, secure):
    served = port(secure=secure)
    with (
        closing(serve(served.config, served.coordinator, TOKEN, Addresses())) as service,
        urllib3.PoolManager() as pool,
    ):

        def ask(path, token):
            headers = {"authorization": f"Bearer {token}"}
            return pool.request("GET", service.url + path, headers=headers, retries=False, timeout=30)

        answer = ask("/containers/0/metrics", service.tokens.read)
        assert b'task="Partition 0"} 7.0' in answer.data
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        snapshot = ask("/containers/0/snapshot", service.tokens.read).json()
        assert snapshot["Partition 0"]["processed.kafka.in"] == 7
        assert ask("/containers/0/metrics", "wrong").status == 403
        assert ask("/containers/7/metrics", TOKEN).status == 404
        assert ask("/containers/0-1/metrics", TOKEN).status == 503
        served.coordinator.ports["0"] = HttpAddress("http://127.0.0.1:1")
        assert b"container 0 does not answer" in ask("/containers/0/metrics", TOKEN).data


def test_a_port_travels_with_the_heartbeats_of_the_newest_attempt_only(port):
    served = port()
    with (
        closing(serve(served.config, served.coordinator, TOKEN, Addresses())) as service,
        closing(CoordinatorClient(service.url, TOKEN)) as client,
    ):
        old, _ = client.register("0")
        assert "0" not in served.coordinator.ports
        new, _ = client.register("0")
        old.port, new.port = HttpAddress("http://old"), HttpAddress("https://new", "f" * 64)
        for lease in (new, old):
            lease.report(ContainerReport("0", lease.epoch, "running"))
        until(lambda: served.coordinator.ports["0"] == new.port, "the port has not arrived")
