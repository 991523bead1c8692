"""Counts the modules of samzapy that a start, a message, a commit and a query touch, in one process and on real
engines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from types import FrameType

import urllib3

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.stream import SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.port import PortSettings, container_port
from samzapy.coordinator.service import Addresses, CoordinatorService
from samzapy.coordinator.wire import JobSpec
from samzapy.job.lease import ContainerReport
from samzapy.job.planner import ContainerModel, JobModel, TaskModel
from samzapy.metrics import Registry
from samzapy.queries.committed import CommittedStores, PublishedStore
from samzapy.runner.driver import serve
from samzapy.testing import TaskTestDriver
from tests.architecture.facts import PACKAGE, ROOT
from tests.jobs.query_job import QUERY_JOB, engine_with

_FOLDER = f"{ROOT / PACKAGE}/"
_JOB = {
    "job.name": "traced",
    "task.inputs": "kafka.in",
    "task.commit.ms": "-1",
    "systems.kafka.samza.factory": "memory",
    "systems.kafka.default.stream.samza.key.serde": "string",
    "systems.kafka.default.stream.samza.msg.serde": "json",
    "stores.counts.factory": "rocksdb",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "long",
    "stores.counts.changelog": "kafka.counts-log",
}
_TOKEN = "token"


#: The modules of the trace that is under way, if there is one.
_touched: list[set[str]] = []


@contextmanager
def traced() -> Iterator[set[str]]:
    """Collect the modules with a function that is called: in this thread, and in threads that start in this context or
    that started in an earlier one."""
    found = set[str]()
    _touched.append(found)
    threading.setprofile(_profile)
    sys.setprofile(_profile)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        _touched.clear()


def _profile(frame: FrameType, event: str, _: object) -> None:
    file = frame.f_code.co_filename
    if event == "call" and file.startswith(_FOLDER):
        for found in _touched:
            found.add(file.removeprefix(_FOLDER).removesuffix(".py"))


class _Count(StreamTask, InitableTask):
    def init(self, context):
        self.counts, self.out = context.get_store("counts"), SystemStream("kafka", "out")

    def process(self, envelope, collector, coordinator):
        count = (self.counts.get(envelope.key) or 0) + 1
        self.counts.put(envelope.key, count)
        collector.send(OutgoingMessageEnvelope(self.out, {"count": count}, key=envelope.key))


def at_start_and_by_messages() -> Iterator[tuple[str, set[str]]]:
    """A start from the job file to the ready task, a message with a cache hit, and a commit; without the test driver
    itself."""
    with traced() as start:
        driver = TaskTestDriver(_Count, _JOB)
    with closing(driver):
        driver.send("in", {}, key="k")
        with traced() as message:
            driver.send("in", {}, key="k")
        with traced() as commit:
            driver.commit()
    for name, found in (("at a start", start), ("by a message", message), ("by a commit", commit)):
        yield name, {module for module in found if not module.startswith("testing/")}


def by_a_query() -> Iterator[tuple[str, set[str]]]:
    """A `get` over HTTP, from the driver's port to the container's engine and back."""
    model = ContainerModel("0", (TaskModel("Partition 0", frozenset({SystemStreamPartition("m", "in", 0)}), 0),))
    coordinator = Coordinator("j", JobSpec(JobModel((model,)), QUERY_JOB), 15.0)
    config, lease, stores = load_job(QUERY_JOB), LocalLease(coordinator, "0"), CommittedStores()
    stores.publish({"counts": {0: PublishedStore(engine_with({b"a": b"1"}))}})
    with ExitStack() as stack:
        with traced():  # so that the threads, which start here, are traced below
            service = stack.enter_context(closing(serve(config, coordinator, _TOKEN, Addresses())))
            settings = PortSettings("127.0.0.1", _TOKEN)
            stack.enter_context(container_port(settings, config, model, lease, Registry(), stores))
            lease.report(ContainerReport("0", lease.epoch, "running"))
            _get(service)
        with traced() as query:
            _get(service)
    yield "by a query", query


def _get(service: CoordinatorService) -> None:
    headers = {"authorization": f"Bearer {service.tokens.read}"}
    answer = urllib3.request("GET", f"{service.url}/stores/counts?key=a", headers=headers, retries=False, timeout=30)
    assert answer.json()["value"] == 1, answer.data
