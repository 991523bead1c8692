"""Effectively-once from one job to another over a real Kafka: two senders, a crash, a topic that is made anew."""

import asyncio
import json
from dataclasses import replace

import pytest

from samzapy import BatchTask, CoroutineTask, InitableTask, OutgoingMessageEnvelope, SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.operators import DeduplicatingTask
from samzapy.runner.prepare import prepare
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka


class Overtaking(CoroutineTask, InitableTask):
    """Sends each message on, without a key, after more or fewer turns of the event loop."""

    def init(self, context):
        self.out = SystemStream("kafka", context.job.config["test.out"])
        self.sender = context.job.config["test.sender"]

    async def process(self, envelope, collector, coordinator):
        for _ in range(envelope.message * 7 % 13):
            await asyncio.sleep(0)
        collector.send(OutgoingMessageEnvelope(self.out, [self.sender, envelope.message]))


class InBatches(BatchTask, InitableTask):
    """Sends each message on, without a key, a batch at a time."""

    def init(self, context):
        self.out = SystemStream("kafka", context.job.config["test.out"])
        self.sender = context.job.config["test.sender"]

    def process_batch(self, batch, collector, coordinator):
        sent = [[self.sender, message] for message in batch.messages]
        collector.send_batch(self.out, None, sent, inputs=batch.offsets)


class Receiving(DeduplicatingTask):
    """Passes on what is new."""

    def init(self, context):
        super().init(context)
        self.out = SystemStream("kafka", context.job.config["test.out"])

    def process_new(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(self.out, envelope.message, key=b"k"))


class Pipeline:
    """Two senders from one topic to another of three partitions, and a receiver of it."""

    def __init__(self, folder, kafka, settings, admin, unique_topic):
        self._settings, self._admin = settings, admin
        self.topics = {name: unique_topic(name) for name in ("in", "out", "unique")}
        for name, partitions in (("in", 1), ("out", 3), ("unique", 1)):
            admin.create(StreamSpec(self.topics[name], partitions))
        self._name = unique_topic("job")[-60:]
        self._flat = {
            "job.default.system": "kafka",
            "job.logged.store.base.dir": str(folder),
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.consumer.bootstrap.servers": kafka,
            "systems.kafka.default.stream.replication.factor": "1",
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "systems.kafka.default.stream.samza.msg.serde": "json",
            "task.checkpoint.replication.factor": "1",
            "task.guarantee": "effectively-once",
            "task.commit.ms": "20000",
        }

    def send(self, *numbers):
        producer = KafkaSystemFactory().producer(self._settings, "test")
        producer.send([OutgoingRecord(self.topics["in"], None, b"%d" % number, 0) for number in numbers])
        producer.flush()
        producer.close()

    def make_anew(self):
        """Delete the senders' input and create it again."""
        self._admin.delete(self.topics["in"])
        self._admin.create(StreamSpec(self.topics["in"], 1))

    def run_sender(self, sender, **keys):
        self._run(
            {
                "job.name": f"{self._name}-{sender}",
                "task.class": f"{__name__}:Overtaking",
                "task.inputs": f"kafka.{self.topics['in']}",
                "task.max.concurrency": "8",
                "test.out": self.topics["out"],
                "test.sender": sender,
            }
            | keys
        )

    def crash_sender(self, sender, **keys):
        arm("commit.4")
        try:
            with pytest.raises(FailPointReached):
                self.run_sender(sender, **keys)
        finally:
            disarm()

    def received(self):
        """What the receiver has passed on, sorted."""
        self._run(
            {
                "job.name": f"{self._name}-receiver",
                "task.class": f"{__name__}:Receiving",
                "task.inputs": f"kafka.{self.topics['out']}",
                "test.out": self.topics["unique"],
                "stores.deduplication.factory": "inmemory",
                "stores.deduplication.key.serde": "string",
                "stores.deduplication.msg.serde": "json",
                "stores.deduplication.changelog": f"kafka.{self._name}-seen",
            }
        )
        return sorted(json.loads(value) for value in self.values("unique"))

    def values(self, name):
        description = self._admin.describe(self.topics[name])
        ssps = [SystemStreamPartition("kafka", self.topics[name], n) for n in range(description.partitions)]
        ranges, values = self._admin.offsets(ssps), []
        consumer = KafkaSystemFactory().consumer(self._settings, "test")
        for ssp in ssps:
            consumer.register(ssp, ranges[ssp].oldest)
        consumer.start()
        while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
            values += [value for batch in consumer.poll(0.2, 1_000) for value in batch.values]
        consumer.close()
        return values

    def _run(self, keys):
        config = load_job(self._flat | keys)
        prepared = prepare(config, until_end=True)
        coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 20.0)
        model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
        build_container(config, model, LocalLease(coordinator, "0"), ends=prepared.ends).run()


@pytest.mark.slow
def test_effectively_once_over_kafka_loses_and_doubles_nothing(
    tmp_path, kafka, kafka_settings, kafka_admin, unique_topic
):
    pipeline = Pipeline(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic)
    pipeline.send(*range(200))
    pipeline.run_sender("a")
    pipeline.send(*range(200, 300))
    pipeline.crash_sender("a")
    pipeline.send(*range(300, 400))
    pipeline.run_sender("a")
    pipeline.run_sender("b")
    assert len(pipeline.values("out")) == 900
    assert pipeline.received() == [[sender, number] for sender in "ab" for number in range(400)]
    pipeline.make_anew()
    pipeline.send(*range(1_000, 1_050))
    pipeline.run_sender("a", **{f"systems.kafka.streams.{pipeline.topics['in']}.samza.reset.offset": "true"})
    late = [["a", number] for number in range(1_000, 1_050)]
    assert pipeline.received() == sorted([[s, number] for s in "ab" for number in range(400)] + late)


@pytest.mark.slow
def test_batches_that_come_again_cut_elsewhere_are_dropped_by_their_receiver(
    tmp_path, kafka, kafka_settings, kafka_admin, unique_topic
):
    pipeline = Pipeline(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic)
    batches = {"task.class": f"{__name__}:InBatches"}
    pipeline.send(*range(100))
    pipeline.run_sender("a", **batches)
    pipeline.send(*range(100, 300))
    pipeline.crash_sender("a", **batches, **{"task.batch.max.messages": "7"})
    pipeline.send(*range(300, 400))
    pipeline.run_sender("a", **batches, **{"task.batch.max.messages": "64"})
    assert len(pipeline.values("out")) == 600
    assert pipeline.received() == [["a", number] for number in range(400)]
