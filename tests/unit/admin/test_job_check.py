"""What a check of a job's surroundings reads, and what it says of the rest."""

import uuid

import pytest

from samzapy.admin import job_check
from samzapy.admin.job_check import inspect_start
from samzapy.admin.user_code import checked_code
from samzapy.api.stream import SystemStream
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.api.task import StreamTask
from samzapy.checkpoint import TopicCheckpointManagerFactory
from samzapy.config.job import checkpoint_stream
from samzapy.config.loader import load_job
from samzapy.system.clients import system_factory


class Idle(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass


class Counting(TopicCheckpointManagerFactory):
    opened = 0

    def manager(self, job, checkpoint, clients):
        Counting.opened += 1
        return super().manager(job, checkpoint, clients)


@pytest.fixture
def config(monkeypatch):
    monkeypatch.setattr(job_check, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(Counting, "opened", 0)
    config = load_job(
        {
            "job.name": "j",
            "task.class": f"{__name__}:Idle",
            "task.inputs": "m.in",
            "task.checkpoint.factory": f"{__name__}:Counting",
            "task.checkpoint.system": "m",
            "systems.m.samza.factory": "memory",
            "systems.m.cluster": uuid.uuid4().hex,
        }
    )
    admin = system_factory(config.systems["m"]).admin(config.systems["m"], "test")
    admin.create(StreamSpec("in", 2))
    return config


def test_a_check_opens_the_checkpoints_once(config):
    model, _ = inspect_start(config, pytest.fail, checked_code(config))
    assert [task.name for task in model.tasks] == ["Partition 0", "Partition 1"]
    assert Counting.opened == 1


def test_each_check_that_waits_for_an_open_transaction_is_left_out_and_named(config):
    stream = checkpoint_stream(config)
    assert isinstance(stream, SystemStream)
    settings = config.systems["m"]
    system_factory(settings).admin(settings, "test").create(StreamSpec(stream.stream, 1))
    producer = system_factory(settings).producer(settings, "test", "id")
    producer.init_transactions()
    producer.begin()
    producer.send([OutgoingRecord(stream.stream, b"k", b"v", 0)])
    producer.flush()
    warnings: list[str] = []
    inspect_start(config, warnings.append, checked_code(config))
    producer.close()
    assert [line.partition(", is a transaction open? ")[0] for line in warnings] == [
        "left out the inputs and tasks of earlier runs",
        "left out the owner of the checkpoints and changelogs",
        "left out the serdes of the stores",
    ]
