"""Bootstrap streams, timers, control messages and a drain on a real Kafka, exactly once, with crashes."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from control_job import Noting
from rigs.job_process import JobProcess

from samzapy import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import TaskFailed
from samzapy.runner.prepare import prepare
from samzapy.system.kafka import KafkaSystemFactory
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(180)]


class KafkaJob:
    """Exactly-once jobs over topics of their own; a container runs in this process."""

    def __init__(self, folder, kafka, settings, admin, unique_topic):
        Noting.log.clear()
        Noting.crash_at.clear()
        self.folder, self.admin, self._settings, self._unique = folder, admin, settings, unique_topic
        self._name = unique_topic("job")[-60:]
        self.flat = {
            "job.name": self._name,
            "job.default.system": "kafka",
            "job.logged.store.base.dir": str(folder),
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.consumer.bootstrap.servers": kafka,
            "systems.kafka.default.stream.replication.factor": "1",
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "task.checkpoint.replication.factor": "1",
            "task.guarantee": "exactly-once",
            "task.commit.ms": "20000",
        }

    def topic(self, what, partitions=1):
        name = self._unique(what)
        self.admin.create(StreamSpec(name, partitions))
        return name

    def send(self, topic, *numbers, partition=0, commit=True):
        """In a transaction: its marker takes an offset."""
        producer = KafkaSystemFactory().producer(self._settings, "test", self._unique("id"))
        producer.init_transactions()
        producer.begin()
        producer.send(
            [OutgoingRecord(topic, b"k", b"%d" % number, partition, timestamp=1_000_000 + number) for number in numbers]
        )
        producer.flush()
        producer.commit() if commit else producer.abort()
        producer.close()

    def run(self, task, until_end=True, **keys):
        config = load_job(self.flat | {"task.class": f"control_job:{task.__name__}"} | keys)
        prepared = prepare(config, until_end=until_end)
        coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 20.0)
        model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
        return build_container(config, model, LocalLease(coordinator, "0"), ends=prepared.ends).run()

    def values(self, topic):
        ssps = [SystemStreamPartition("kafka", topic, 0)]
        (found,) = self.admin.offsets(ssps).values()
        consumer = KafkaSystemFactory().consumer(self._settings, "test")
        consumer.start({ssps[0]: found.oldest})
        values = []
        while consumer.position(ssps[0]) < found.upcoming:
            values += [int(value) for batch in consumer.poll(0.2, 1_000) for value in batch.values]
        consumer.close()
        return values


@pytest.fixture
def job(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic):
    return KafkaJob(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic)


def test_a_table_with_aborted_records_is_read_first_also_after_a_crash(job):
    table, topic = job.topic("table"), job.topic("in", 2)
    job.send(topic, 1, 2, 3)
    job.send(topic, 4, 5, partition=1)
    for first in (1000, 1500):
        job.send(table, *range(first, first + 500))
        job.send(table, *range(9000, 9100), commit=False)
    keys = {"task.inputs": f"kafka.{topic},kafka.{table}", f"systems.kafka.streams.{table}.samza.bootstrap": "true"}
    Noting.crash_at.add(1700)
    with pytest.raises(TaskFailed):
        job.run(Noting, **keys)
    Noting.log.clear()
    job.run(Noting, **keys)
    assert [number for _, number in Noting.log[:1000]] == list(range(1000, 2000))
    assert sorted(number for _, number in Noting.log[1000:]) == [1, 2, 3, 4, 5]


def test_the_drain_command_ends_a_running_job_with_everything_processed(job, tmp_path):
    topic, out = job.topic("in", 2), job.topic("out")
    job.send(topic, *range(100))
    properties = tmp_path / "job.properties"
    keys = job.flat | {
        "task.class": "control_job:Echo",
        "task.inputs": f"kafka.{topic}",
        "test.output": f"kafka.{out}",
        "job.spark.lease.ms": "3000",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    running = JobProcess(tmp_path, str(properties), "--runner", "local", PYTHONPATH=path)
    try:
        until(lambda: "running" in running.errors, lambda: running.errors)
        job.send(topic, *range(100, 200), partition=1)
        command = [str(Path(sys.executable).with_name("samzapy")), "drain", str(properties)]
        drained = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert (drained.returncode, drained.stdout) == (0, "drained\n"), drained.stderr
        assert running.wait() == 0, running.errors
    finally:
        running.close()
    assert sorted(job.values(out)) == [-1, -1, *range(200)]
