"""Jobs on a real Kafka, exactly once, whose inputs are deleted and created again while they run."""

import json
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from recreated_job import Totals

from samzapy import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.runner.stopping import StopSwitch
from samzapy.system.kafka import KafkaSystemFactory
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(240)]
DEADLINE_S = 60.0


class Run(threading.Thread):
    """A run by the local runner; `error` is its end."""

    def __init__(self, flat):
        super().__init__(daemon=True)
        self.switch, self.error, self.events = StopSwitch(), None, []
        self._flat = flat
        self.start()

    def run(self):
        try:
            options = RunOptions(stop=self.switch, on_event=self.events.append)
            LocalRunner().run(prepare(load_job(self._flat)), options)
        except Exception as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def end(self):
        self.join(DEADLINE_S)
        assert not self.is_alive()


class Rig:
    """A job over topics of its own."""

    def __init__(self, folder, kafka, settings, admin, unique_topic):
        self.folder, self.admin, self._settings, self._unique = folder, admin, settings, unique_topic
        self.out = self.topic("out")
        self.flat = {
            "job.name": unique_topic("job")[-60:],
            "job.default.system": "kafka",
            "job.logged.store.base.dir": str(folder),
            "job.non-logged.store.base.dir": str(folder),
            "systems.kafka.samza.factory": "kafka",
            "systems.kafka.consumer.bootstrap.servers": kafka,
            "systems.kafka.default.stream.replication.factor": "1",
            "systems.kafka.default.stream.samza.offset.default": "oldest",
            "task.checkpoint.replication.factor": "1",
            "task.guarantee": "exactly-once",
            "task.commit.ms": "500",
            "test.output": f"kafka.{self.out}",
        }

    def topic(self, what):
        name = self._unique(what)
        self.admin.create(StreamSpec(name, 1))
        return name

    def send(self, topic, keyed):
        producer = KafkaSystemFactory().producer(self._settings, "test")
        producer.send([OutgoingRecord(topic, key.encode(), value, 0) for key, value in keyed])
        producer.flush()
        producer.close()

    def again(self, topic, keyed):
        self.admin.delete(topic)
        self.admin.create(StreamSpec(topic, 1))
        self.send(topic, keyed)

    def outputs(self):
        """The committed outputs."""
        ssp = SystemStreamPartition("kafka", self.out, 0)
        consumer, values = KafkaSystemFactory().consumer(self._settings, "test"), []
        found = self.admin.offsets([ssp])[ssp]
        consumer.start({ssp: found.oldest})
        while consumer.position(ssp) < found.upcoming:
            values += [json.loads(value) for batch in consumer.poll(0.2, 1_000) for value in batch.values]
        consumer.close()
        return values

    def command(self, line):
        """Run the command that an error names, with the job's file."""
        file = self.folder / "job.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.flat.items()))
        program, *words = shlex.split(line.replace("JOB.properties", str(file)))
        assert program == "samzapy"
        subprocess.run([sys.executable, "-m", "samzapy", *words], cwd=Path(__file__).parent, check=True, timeout=60)


@pytest.fixture
def rig(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic):
    Totals.processed.clear()
    return Rig(tmp_path, kafka, kafka_settings, kafka_admin, unique_topic)


@pytest.mark.parametrize("kind", ["plain", "bootstrap", "broadcast"])
def test_an_input_recreated_under_its_job_is_counted_once(rig, kind):
    topic, other = rig.topic("in"), rig.topic("other")
    rig.flat |= {
        "task.class": "recreated_job:Totals",
        "task.inputs": f"kafka.{other}" if kind == "broadcast" else f"kafka.{topic},kafka.{other}",
        "stores.totals.factory": "rocksdb",
        "stores.totals.key.serde": "string",
        "stores.totals.msg.serde": "json",
        "stores.totals.changelog": f"kafka.{topic}-changelog",
        "stores.totals.changelog.replication.factor": "1",
    }
    if kind == "broadcast":
        rig.flat["task.broadcast.inputs"] = f"kafka.{topic}#0"
    elif kind == "bootstrap":
        rig.flat[f"systems.kafka.streams.{topic}.samza.bootstrap"] = "true"
    rig.send(topic, [("k", b"old")] * 100)
    rig.send(other, [("k", b"other")] * 10)

    run = Run(rig.flat)
    until(lambda: Totals.processed == {topic: 100, other: 10}, "the first records are processed", DEADLINE_S)
    rig.again(topic, [("k", b"new")] * 400)
    run.end()

    said = str(run.error)
    assert f"kafka.{topic}: it was deleted and created again" in said
    assert f"processed and committed are kafka.{topic}[0] to 100 (exclusive), and nothing else" in said
    of_topic = [each for each in rig.outputs() if each[0] == topic]
    assert of_topic == [[topic, number, "old"] for number in range(1, 101)]

    (line,) = re.findall(r"samzapy startpoint set JOB\.properties oldest --input '[^']+'", said)
    rig.command(line)
    LocalRunner().run(prepare(load_job(rig.flat), until_end=True), RunOptions())
    of_topic = [each for each in rig.outputs() if each[0] == topic]
    assert of_topic[100:] == [[topic, number, "new"] for number in range(101, 501)]
    assert [each for each in rig.outputs() if each[0] == other] == [[other, n, "other"] for n in range(1, 11)]


def test_a_side_input_recreated_under_its_job_leaves_no_mix(rig):
    topic, side = rig.topic("in"), rig.topic("side")
    rig.flat |= {
        "task.class": "recreated_job:Looking",
        "task.inputs": f"kafka.{topic}",
        "stores.table.factory": "rocksdb",
        "stores.table.key.serde": "string",
        "stores.table.msg.serde": "string",
        "stores.table.side.inputs": f"kafka.{side}",
        "stores.table.side.inputs.processor.factory": "recreated_job:Table",
    }
    rig.send(side, [(f"k{number}", b"old") for number in range(100)])
    rig.send(topic, [("k", b"look")])
    run = Run(rig.flat)
    until(lambda: len(rig.outputs()) == 1, "an output", DEADLINE_S)
    assert rig.outputs() == [{f"k{number}": "old" for number in range(100)}]

    rig.again(side, [(f"k{number}", b"new") for number in range(50, 450)])
    expected = {f"k{number}": "new" for number in range(50, 450)}

    def is_new():
        rig.send(topic, [("k", b"look")])
        return rig.outputs()[-1] == expected

    try:
        until(is_new, "the new stream is read", DEADLINE_S)
    finally:
        run.switch.ask()
        run.end()
    assert run.error is None
    assert all(len(set(each.values())) <= 1 for each in rig.outputs())
