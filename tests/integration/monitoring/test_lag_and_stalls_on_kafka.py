"""Lag, stalls and the copied positions of a job that reads a real Kafka."""

import logging
import os
import signal
import threading
from contextlib import closing, contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from samzapy import RequestScope, StreamTask
from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.config.loader import load_job
from samzapy.devkafka import DevBroker
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka

PATIENCE_S = 25.0


class Held(StreamTask):
    """Stays in `process` at a message `hold` until it is let go; ends the job at a message `stop`."""

    let_go = threading.Event()

    def process(self, envelope, collector, coordinator):
        if envelope.message == "hold":
            self.let_go.wait()
        if envelope.message == "stop":
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)


class Run:
    """A job in a thread, and its statuses."""

    def __init__(self, servers, **keys):
        Held.let_go.clear()
        self.name = f"held-{uuid4().hex[:8]}"
        self.servers = servers
        self.job = {
            "job.name": self.name,
            "task.class": f"{__name__}:Held",
            "task.inputs": f"kafka.{self.name}",
            "task.commit.ms": "100",
            "task.stall.ms": "300",
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.consumer.bootstrap.servers": servers,
            "systems.kafka.default.stream.samza.msg.serde": "string",
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "task.checkpoint.replication.factor": "1",
            **keys,
        }
        self._changed = threading.Condition()
        self._status = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        LocalRunner().run(prepare(load_job(self.job)), RunOptions(on_status=self._take))

    def _take(self, status):
        with self._changed:
            self._status = status.containers[0]
            self._changed.notify_all()

    def start(self):
        self._thread.start()

    def create(self):
        """The input, with two partitions."""
        settings = SystemSettings(
            "kafka", "samzapy.system.kafka:KafkaSystemFactory", consumer={"bootstrap.servers": self.servers}
        )
        with closing(KafkaSystemFactory().admin(settings, "tests")) as admin:
            admin.create(StreamSpec(self.name, 2))

    def until(self, seen):
        """The container's status as soon as `seen` of it."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._status is not None and seen(self._status), PATIENCE_S), (
                self._status
            )
            return self._status

    def send(self, *messages, **settings):
        producer = Producer({"bootstrap.servers": self.servers, **settings})
        for message in messages:
            producer.produce(self.name, message.encode(), partition=0)
        assert producer.flush(30) == 0
        return producer

    def end(self):
        Held.let_go.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@pytest.fixture
def run(kafka):
    made = Run(kafka)
    made.create()
    return made


def committed(run):
    at = [TopicPartition(run.name, 0), TopicPartition(run.name, 1)]
    request = [ConsumerGroupTopicPartitions(f"{run.name}-1", at)]
    admin = AdminClient({"bootstrap.servers": run.servers})
    answer = admin.list_consumer_group_offsets(request)
    return {each.partition: each.offset for each in answer[f"{run.name}-1"].result(30).topic_partitions}


def test_a_job_that_is_held_up_shows_lag_and_stall_and_later_neither(run):
    run.send("a", "b", "hold", "c")
    run.start()
    held = run.until(lambda status: status.stalled is not None and status.lag == 4)
    where = f"kafka.{run.name}[0]"
    assert held.stalled.reason == f"in process of {where}@2"
    assert "self.let_go.wait()" in held.stalled.stack
    assert (held.lags[where].position, held.lags[where].end, held.lags[where].lag) == (0, 4, 4)
    assert held.lags[where].age_ms >= 0
    assert held.lags[f"kafka.{run.name}[1]"].lag == 0
    Held.let_go.set()
    run.until(lambda status: status.stalled is None and status.lag == 0)
    run.send("stop")
    run.end()
    assert committed(run)[0] == 5, "an end of the run leaves its positions in the group"


def test_records_behind_anothers_open_transaction_are_a_stall_and_no_lag(run):
    run.send("a")
    run.start()
    run.until(lambda status: status.processed == 1)
    producer = Producer({"bootstrap.servers": run.servers, "transactional.id": run.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(run.name, b"b", partition=0)
    producer.flush(30)
    waiting = run.until(lambda status: status.stalled is not None)
    assert waiting.stalled.reason == f"waits for a transaction to end in kafka.{run.name}[0]@1"
    producer.commit_transaction(30)
    run.until(lambda status: status.processed == 2 and status.stalled is None and status.lag == 0)
    run.send("stop")
    run.end()


@contextmanager
def own_broker(folder):
    broker = DevBroker(folder)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.mark.slow
def test_a_lag_is_stale_while_its_broker_is_frozen_and_known_after_it(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "samzapy.container.supervision.outage")

    def has_said(text):
        return any(text in record.getMessage() for record in list(caplog.records))

    with own_broker(tmp_path / "broker") as broker:
        run = Run(broker.start())
        run.create()
        run.send("a", "b")
        run.start()
        run.until(lambda status: status.lag == 0 and status.processed == 2)
        os.kill(broker.running.pid, signal.SIGSTOP)
        try:
            stale = run.until(lambda status: status.lags is None and has_said("The lag of the inputs is unknown"))
            assert (stale.lag, [each.end for each in stale.partitions.values()]) == (None, [None, None])
        finally:
            os.kill(broker.running.pid, signal.SIGCONT)
        run.send("c", "d")
        run.until(lambda status: status.lag == 0 and status.processed == 4 and has_said("The outage is over"))
        run.send("stop")
        run.end()
