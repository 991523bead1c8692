"""A job takes a new topic of a real Kafka: it starts anew, also after kills at each step."""

import os
from collections import Counter
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import STORES, Feeder, Streams, dump, kafka_job, settings_of

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(180)]

PARTITIONS = 2
CODE = Path(__file__).parents[2] / "jobs" / "last_and_count.py"
#: Numbers of the new topic, which no other topic has.
NEW = range(10_000_001, 10_000_201)


class Scene:
    """A job that reads `<prefix>-in.*`, with a feeder for `<prefix>-in`."""

    def __init__(self, folder, bootstrap, name):
        self.folder, self.prefix = folder, f"{name}-{os.getpid()}"
        keys = {
            "task.inputs": f"kafka.{self.prefix}-in.*",
            "task.guarantee": "exactly-once",
            "job.inputs.refresh.ms": "300ms",
            "job.spark.lease.ms": "6000",
            "job.logged.store.base.dir": "state",
            "job.page.port": "0",
            f"systems.kafka.streams.{self.prefix}-in.samza.offset.default": "oldest",
        }
        job = kafka_job(self.prefix, bootstrap, **keys)
        # Nothing says where the new topic starts.
        del job["systems.kafka.default.stream.samza.offset.default"]
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        self.streams = Streams(settings_of(job, "kafka"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(f"{self.prefix}-{stream}", PARTITIONS))
        self.runs = []
        self.feeder = Feeder(self.streams, f"{self.prefix}-in")

    def start(self, fail=""):
        environ = {"SAMZAPY_FAIL": fail} if fail else {}
        run = JobProcess(self.folder, "job.properties", "--runner", "local", "--py-files", str(CODE), **environ)
        self.runs.append(run)
        return run

    def sent(self):
        """How often each number was sent on, for readers of committed records."""
        outputs = Counter()
        for batch in self.streams.read(f"{self.prefix}-out"):
            outputs.update(map(int, batch.values))
        return outputs

    def await_sent(self, run, numbers):
        def look():
            assert run.exit_code is None, run.errors
            return self.sent().keys() >= set(numbers)

        until(look, lambda: run.errors)

    def add_topic(self):
        stream = f"{self.prefix}-in-2"
        self.streams.admin.create(StreamSpec(stream, PARTITIONS))
        producer = self.streams.producer()
        producer.send([OutgoingRecord(stream, b"new-%d" % number, b"%d" % number) for number in NEW])
        producer.flush()
        producer.close()

    def close(self):
        for run in self.runs:
            run.close()
        if not self.feeder._closed.is_set():
            self.feeder.close()


@pytest.fixture
def scene(kafka, tmp_path, unique_topic):
    made = Scene(tmp_path, kafka, unique_topic("new")[-40:])
    yield made
    made.close()


@pytest.mark.parametrize(
    "fail", ["", "inputs.2:1:kill", "inputs.3:1:kill", "inputs.4:1:kill"], ids=lambda f: f[:8] or "sound"
)
def test_a_new_topic_is_read_once_from_its_start_and_nothing_else_is_lost(scene, fail):
    run = scene.start(fail)
    scene.await_sent(run, range(1_000))
    scene.add_topic()
    if fail:
        until(lambda: run.exit_code is not None, lambda: run.errors)
        assert run.exit_code == -9, run.errors
        run = scene.start()
    scene.await_sent(run, NEW)
    written = scene.feeder.close()
    scene.await_sent(run, range(written))
    run.terminate()
    assert run.wait() == 0, run.errors
    assert scene.sent() == Counter([*range(written), *NEW])
    for store in STORES:
        base = scene.folder / "state" / f"{scene.prefix}-1" / store
        replayed = scene.streams.replay(f"{scene.prefix}-{store}-changelog")
        assert replayed == [dump(base / f"Partition_{n}", store) for n in range(PARTITIONS)]
