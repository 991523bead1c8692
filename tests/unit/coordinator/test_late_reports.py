"""Reports that the network delivers after later ones: the container has given them up, but the kernel sends them
again."""

import json

import pytest
import urllib3
from jobs.job_models import job_model

from samzapy.coordinator.client import CoordinatorClient
from samzapy.coordinator.coordinator import Coordinator, Oversight
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import RetriableError, TaskFailed
from samzapy.job.lease import ContainerReport, Directive, Facts, LogLine
from samzapy.testing import ManualClock

TOKEN = "correct-horse"


class Client(CoordinatorClient):
    """A client whose requests, while its network is down, get no answer and arrive later."""

    def __init__(self, url, token):
        super().__init__(url, token)
        self.is_down = False
        self._late = []

    def call(self, kind, method, path, body=None):
        return self._sent(lambda: CoordinatorClient.call(self, kind, method, path, body))

    def arrive(self):
        """Deliver the requests that got no answer, and return the answers, which nobody reads any more."""
        late, self._late = self._late, []
        return [send() for send in late]

    def _sent(self, send):
        if self.is_down:
            self._late.append(send)
            raise RetriableError("the coordinator does not answer (ReadTimeoutError)")
        return send()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def facts():
    return []


@pytest.fixture
def coordinator(clock, facts):
    return Coordinator(
        "job", JobSpec(job_model(), {}), 15.0, clock, oversight=Oversight(on_facts=lambda _, told: facts.append(told))
    )


@pytest.fixture
def service(coordinator):
    running = CoordinatorService(coordinator, TOKEN)
    yield running
    running.close()


@pytest.fixture
def client(service):
    made = Client(service.url, TOKEN)
    yield made
    made.close()


@pytest.fixture
def lease(client):
    return client.register("0")[0]


def told(lease, processed, phase="running", **more):
    return ContainerReport("0", lease.epoch, phase, processed=processed, commits=processed // 10, **more)


def lost(client, report, told):
    """Make a report while the network is down."""
    client.is_down = True
    try:
        report(told)
    except RetriableError:
        pass
    finally:
        client.is_down = False


def test_a_late_heartbeat_counts_nothing(client, coordinator, lease):
    lost(client, lease.report, told(lease, 100, "restoring"))
    lease.report(told(lease, 200))
    client.arrive()
    assert coordinator.status().containers[0].phase == "running"
    lease.report(told(lease, 210))
    assert (coordinator.status().processed, coordinator.status().commits) == (210, 21)


def test_a_late_heartbeat_does_not_renew_the_lease(client, coordinator, lease, clock):
    lost(client, lease.report, told(lease, 100))
    lease.report(told(lease, 200))
    clock.advance(15.0)
    client.arrive()
    assert coordinator.status().containers[0].state == "lost"
    lease.report(told(lease, 210))
    assert coordinator.status().containers[0].state == "running"


def test_a_heartbeat_that_arrives_after_the_failure_does_not_bring_the_attempt_back(client, coordinator, lease):
    lost(client, lease.report, told(lease, 100))
    client.fail("0", lease.epoch, TaskFailed("no"))
    client.arrive()
    assert coordinator.status().containers[0].state == "lost"
    successor, _ = client.register("0")
    successor.report(told(successor, 5))
    assert coordinator.status().containers[0].state == "running"


def test_a_late_heartbeat_is_answered_with_the_present_directive(client, coordinator, lease):
    lost(client, lease.report, told(lease, 100))
    lost(client, lease.report, told(lease, 150))
    lease.report(told(lease, 200))
    coordinator.stop()
    assert {answer.directive for answer in client.arrive()} == {Directive.STOP}
    lost(client, lease.report, told(lease, 210))
    client.register("0")
    assert {answer.directive for answer in client.arrive()} == {Directive.ABANDON}


def test_the_lines_of_a_late_heartbeat_come_with_the_next_one_only(client, coordinator, lease, facts):
    line = LogLine(1, 30, "here", "it is slow")
    late = told(lease, 1, "restoring", positions={"m.in[0]": 40}, facts=Facts(lines=(line,)))
    lost(client, lease.report, late)
    lease.report(told(lease, 2, "running", positions={"m.in[0]": 50}))
    client.arrive()
    assert coordinator.status().containers[0].positions == {"m.in[0]": 50}
    assert [each for one in facts for each in one.lines] == [line]


def test_reports_without_a_sequence_number_count_as_they_come(service, coordinator):
    epoch = coordinator.register("0")

    def post(call, body):
        answer = urllib3.request(
            "POST", f"{service.url}/containers/0/{call}", body=body, headers={"authorization": f"Bearer {TOKEN}"}
        )
        assert answer.status == 200
        return answer.json()

    for processed in (100, 200, 4):
        report = {"container_id": "0", "epoch": epoch, "phase": "running", "processed": processed}
        assert post("heartbeat", json.dumps({"report": report}))["directive"] == "continue"
    assert coordinator.status().processed == 204
