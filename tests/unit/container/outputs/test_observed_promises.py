"""What a promise does not cover is counted while it happens, and said."""

import logging

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy import OutgoingMessageEnvelope, SystemStream
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure
from samzapy.failpoints import FailPointReached, disarm
from samzapy.system.clients import system_factory

ELSEWHERE = SystemStream("aside", "copies")
EXACTLY = {"task.guarantee": "exactly-once", "task.commit.ms": "30000"}
RESET = {"systems.mem.streams.in.samza.reset.offset": "true"}


class SendsElsewhere(CountingTask):
    """Sends each message to a system of the transaction and to another one."""

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        collector.send(OutgoingMessageEnvelope(ELSEWHERE, envelope.message, key=envelope.key))


class StartsAtThree(CountingTask):
    def init(self, context):
        super().init(context)
        for ssp in context.task.ssps:
            context.task.set_starting_offset(ssp, 3)


def two_systems(folder):
    """A job in exactly-once that sends to two systems, and how many records the other one has."""
    cluster = {"systems.aside.samza.factory": "memory", "systems.aside.cluster": str(folder)}
    serdes = {"systems.aside.samza.key.serde": "string", "systems.aside.samza.msg.serde": "json"}
    job = MemoryJob(folder, 1, SendsElsewhere, **EXACTLY, **cluster, **serdes)
    settings = load_job(job.flat).systems["aside"]
    admin = system_factory(settings).admin(settings, "test")
    admin.create(StreamSpec("copies", 1))
    at = SystemStreamPartition("aside", "copies", 0)
    return job, lambda: admin.offsets([at])[at].upcoming


def test_outputs_outside_the_transaction_are_counted_and_said_once(tmp_path, caplog):
    job, copies = two_systems(tmp_path)
    job.send(*((0, "k", {"id": n}) for n in range(600)))
    container, coordinator = job.container()
    with caplog.at_level(logging.WARNING):
        container.run()
    assert coordinator.status().counts == {"guarantee.outside-transaction": 600}
    assert copies() == 600
    assert sum("outside the transaction on 'mem'" in record.message for record in caplog.records) == 1


def test_a_crash_after_the_commit_loses_no_output_to_another_system(tmp_path, monkeypatch):
    job, copies = two_systems(tmp_path)
    job.run()
    job.send((0, "k", {"id": 1}))
    monkeypatch.setenv("SAMZAPY_FAIL", "commit.5:1:raise")
    with pytest.raises(FailPointReached):
        job.run()
    disarm()
    monkeypatch.delenv("SAMZAPY_FAIL")
    job.run()
    assert copies() >= 1
    assert len(job.outputs()) == 1


@pytest.mark.parametrize(
    ("default", "counted"), [("oldest", {"offsets-repeated": 5}), ("upcoming", {"offsets-skipped": 4})]
)
def test_what_a_reset_skips_or_repeats_is_counted(tmp_path, default, counted):
    job = MemoryJob(tmp_path, 1)
    job.send(*((0, "k", {"id": n}) for n in range(5)))
    job.run()
    job.send(*((0, "k", {"id": n}) for n in range(4)))
    container, coordinator = job.container(**RESET, **{"systems.mem.default.stream.samza.offset.default": default})
    container.run()
    assert coordinator.status().counts == {f"guarantee.{name}": count for name, count in counted.items()}


def test_offsets_that_init_passes_over_are_counted(tmp_path):
    job = MemoryJob(tmp_path, 1, StartsAtThree)
    job.run()  # commits its position: 3
    job.send(*((0, "k", {"id": n}) for n in range(5)))
    job.flat["task.class"] = f"{CountingTask.__module__}:CountingTask"
    job.run()
    job.flat["task.class"] = f"{__name__}:StartsAtThree"
    container, coordinator = job.container()
    container.run()
    assert coordinator.status().counts == {"guarantee.offsets-repeated": 2}


def test_a_local_store_that_is_set_aside_is_counted(tmp_path):
    job = MemoryJob(tmp_path, 1)
    job.send((0, "k", {"id": 1}))
    job.run()
    for marker in tmp_path.rglob("CURRENT"):
        marker.write_text("nonsense\n")
    container, coordinator = job.container()
    container.run()
    assert coordinator.status().counts == {"guarantee.stores-rebuilt": 1}
    assert job.changelog() == {"k": 1}


def test_a_changelog_that_lost_committed_state_is_refused_with_the_repair(tmp_path):
    job = MemoryJob(tmp_path, 1)
    job.send(*((0, "k", {"id": n}) for n in range(3)))
    job.run()
    job.admin.delete("counts-changelog")
    with pytest.raises(EnvironmentFailure) as caught:
        job.run()
    assert str(caught.value).startswith(
        "changelog mem.counts-changelog[0] ends before offset 0, the last checkpoint is at 0: it was deleted or "
        "created again"
    )
    oldest = {**RESET, "systems.mem.default.stream.samza.offset.default": "oldest"}
    job.run(**oldest)
    assert job.changelog() == {"k": 3}
    assert len(job.outputs()) == 6
    job.run()
