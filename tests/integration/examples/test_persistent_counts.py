"""The flight counts of a persistent task: against an oracle, and through kills of the job's process.

However often the process was killed, and however late the flights are, at the end every flight is counted once.
"""

import json
import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from rigs.job_process import JobProcess

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory
from samzapy.verify.processes import until

JOB = Path(__file__).parents[3] / "configs" / "flight-counts.properties"
AIRPORTS = ("EWR", "JFK", "LGA")
START_MS, HOUR_MS, DAY_MS = 1_356_998_400_000, 3_600_000, 86_400_000
PARTITIONS = 3


class CountedFlights:
    """The example's job on a system of `overrides`, and flights of a seeded generator in its input."""

    def __init__(self, overrides, inputs="flights", output="flight-counts"):
        self.overrides = {"task.inputs": f"events.{inputs}", "flight.counts.output": f"events.{output}", **overrides}
        self.config = load_job(JOB, self.overrides)
        self.settings = self.config.systems["events"]
        self.inputs, self.output = inputs, output
        self.factory = system_factory(self.settings)
        self.random = random.Random(7)
        self.sent = []
        with closing(self.factory.admin(self.settings, "test")) as admin:
            # The flights are of 2013: a broker would delete them at once.
            admin.create(StreamSpec(inputs, PARTITIONS, {"retention.ms": "-1"}))
            admin.create(StreamSpec(output, 1))

    def append(self, hours):
        """Flights of so many further hours, to every partition and up to three hours out of order."""
        first = max((time for _, time, _ in self.sent), default=START_MS)
        late = [
            (partition, first + hour * HOUR_MS - self.random.randrange(3 * HOUR_MS), self.random.choice(AIRPORTS))
            for hour in range(hours)
            for partition in range(PARTITIONS)
            for _ in range(self.random.randrange(1, 6))
        ]
        self.sent += late
        with closing(self.factory.producer(self.settings, "test")) as producer:
            producer.send(
                [
                    OutgoingRecord(self.inputs, b"", json.dumps({"origin": airport}).encode(), number, timestamp=time)
                    for number, time, airport in late
                ]
            )
            producer.flush()

    def told(self):
        """Every message of the output, in order."""
        ssp = SystemStreamPartition("events", self.output, 0)
        with (
            closing(self.factory.admin(self.settings, "test")) as admin,
            closing(self.factory.consumer(self.settings, "test")) as consumer,
        ):
            bound = admin.offsets([ssp])[ssp]
            consumer.start({ssp: bound.oldest})
            messages = []
            while consumer.position(ssp) < bound.upcoming:
                messages += [json.loads(value) for batch in consumer.poll(0.2, 1_000) for value in batch.values]
        return messages

    def expected(self):
        """The counts of every task, by the list of what was sent."""
        counts = {f"Partition {number}": Counter() for number in range(PARTITIONS)}
        for number, _, airport in self.sent:
            counts[f"Partition {number}"][airport] += 1
        return counts

    def run(self):
        return LocalRunner().run(prepare(load_job(JOB, self.overrides), until_end=True), RunOptions())

    def check_end(self):
        """The last message of each task is the count of all flights."""
        final = {message["task"]: message["counts"] for message in self.told() if "until" not in message}
        assert final == {task: dict(counts) for task, counts in self.expected().items()}

    def process(self, folder):
        return JobProcess(folder, str(JOB), "--runner", "local", *self.arguments())

    def arguments(self):
        return [part for key, value in self.overrides.items() for part in ("--config", f"{key}={value}")]


@pytest.fixture
def local(tmp_path):
    return {"systems.events.path": str(tmp_path / "events.db")}


def test_persistent_counts_equal_the_oracle_and_continue(local):
    job = CountedFlights({**local, "task.commit.ms": "5"})
    job.append(200)
    outcome = job.run()
    assert outcome.status.processed == len(job.sent)
    job.check_end()
    clocks = outcome.status.clocks
    assert clocks.job == max(time for _, time, _ in job.sent)
    # Every task is at the same checkpoint, or has nothing after its own.
    assert clocks.checkpoint == max(max(told.checkpoints) for told in clocks.tasks.values())
    before = len(job.sent)
    job.append(50)
    again = job.run()
    assert again.status.processed == len(job.sent) - before
    job.check_end()


def killed_again_and_again(folder, job, rounds):
    """Kill the job's process `rounds` times while flights come in; then let a run come to the end."""
    pause, dice, checkpoints = Event(), random.Random(11), 0
    for _ in range(rounds):
        process = job.process(folder)
        try:
            seen = len(job.told())
            job.append(60)
            until(lambda seen=seen, process=process: alive(process) and len(job.told()) > seen, process.errors)
            pause.wait(dice.random() * 0.5)
            process.process.kill()
        finally:
            process.close()
    job.append(5)
    job.run()
    checkpoints = [message for message in job.told() if "until" in message]
    assert len(checkpoints) >= rounds
    job.check_end()


def alive(process):
    assert process.process.poll() is None, process.errors
    return True


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_persistent_counts_are_exact_after_kills_on_kafka(tmp_path, kafka, unique_topic, guarantee):
    name = unique_topic("job")[-60:].strip("-_")
    overrides = {
        "job.name": name,
        "task.guarantee": guarantee,
        "task.commit.ms": "100",
        "systems.events.samza.factory": "kafka",
        "systems.events.consumer.bootstrap.servers": kafka,
        "systems.events.producer.bootstrap.servers": kafka,
        "systems.events.default.stream.replication.factor": "1",
    }
    job = CountedFlights(overrides, unique_topic("in"), unique_topic("out"))
    killed_again_and_again(tmp_path, job, 4)
