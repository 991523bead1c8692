"""The sizes of changelogs that are topics of a real Kafka."""

import threading
from contextlib import closing, contextmanager

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import ChangelogSize
from samzapy.coordinator.wire import JobSpec
from samzapy.job.model import JobModel
from samzapy.runner import driver
from samzapy.runner.checks import Checks
from samzapy.runner.driver import watch_sizes
from samzapy.system.clients import SystemClients, system_factory

pytestmark = pytest.mark.kafka


class Noted(Coordinator):
    def __init__(self):
        super().__init__("job", JobSpec(JobModel(()), {}), 5.0)
        self.looked = threading.Event()

    def note_changelogs(self, sizes, period_s):
        super().note_changelogs(sizes, period_s)
        self.looked.set()


def test_a_look_counts_the_offsets_from_the_beginning_to_the_end(
    kafka_settings, kafka_admin, unique_topic, monkeypatch
):
    monkeypatch.setattr(driver, "_SIZES_FIRST_S", 0.01)
    name, coordinator = unique_topic(), Noted()
    kafka_admin.create(StreamSpec(name, 3, {"cleanup.policy": "delete"}))
    ssps = [SystemStreamPartition("kafka", name, number) for number in range(3)]

    def clients():
        return SystemClients({"kafka": kafka_settings}, system_factory, "test")

    with closing(clients()) as own:
        own.producer("kafka").send([OutgoingRecord(name, b"k", b"v", number % 2) for number in range(10)])
        own.producer("kafka").flush()
    kafka_admin.delete_records(ssps[0], 3)

    @contextmanager
    def opened():
        with closing(clients()) as made:
            yield made, None

    with Checks(JobRecords(opened, kept=True)) as checks:
        watch_sizes({"counts": ssps}, coordinator, checks)
        assert coordinator.looked.wait(60)
    assert coordinator.status().changelogs == {"counts": ChangelogSize(3, 7)}
