"""PersistentTask in a container: exactly once in its state, whatever ends an attempt."""

import json

import pytest
from jobs.memory_job import MemoryJob

from samzapy import EndOfStreamListenerTask, OutgoingMessageEnvelope, SystemStream
from samzapy.api.system import OutgoingRecord
from samzapy.config.loader import load_job
from samzapy.errors import TaskFailed
from samzapy.operators.persistent import NonWindowState, PersistentTask, Sum
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.sinks import SqlSink

OUT = SystemStream("mem", "out")
INTERVAL = 10


class SummingTask(PersistentTask[int], EndOfStreamListenerTask):
    """Sums the messages; a message that is a text is an order. Says what it counted, at which cut, and the end."""

    def persistent_state(self):
        return NonWindowState(Sum())

    def on_start(self, context):
        self.name = context.task.task_name
        self.calls.append(("start", self.name, self.state.value))

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        if envelope.offset % 3 == 2:
            coordinator.commit()

    def process_message(self, state, message):
        self.calls.append(("process", self.name, message.offset))
        order = message.message
        if order == "fail":
            state.update(message.event_time, 1_000_000)
            raise ValueError("told to")
        state.update(message.event_time, order)
        self.collector.send(OutgoingMessageEnvelope(OUT, {"out": order}, key=self.name))

    def on_checkpoint(self, time_ms, state, collector):
        self.calls.append(("cut", self.name, time_ms, state.cut))

    def on_end_of_stream(self, collector, coordinator):
        self.calls.append(("end", self.name, self.state.value))


@pytest.fixture
def job(tmp_path):
    return make(tmp_path)


def make(folder, **keys):
    job = MemoryJob(
        folder,
        task=SummingTask,
        **{
            "state.checkpoint.interval.ms": str(INTERVAL),
            "task.poll.batch.size": "2",
            "task.commit.ms": "50000",
            "task.watermark.idle.timeout.ms": "-1",
        }
        | keys,
    )
    for key in [key for key in job.flat if key.startswith("stores.")]:
        del job.flat[key]
    return job


def run(job, **overrides):
    """As `samzapy run --until-end`: with what keeps the job's clock."""
    return LocalRunner().run(prepare(load_job(job.flat | overrides), until_end=True), RunOptions())


def send(job, *messages):
    """Append (partition, event time, value) triples."""
    records = [OutgoingRecord("in", None, json.dumps(value).encode(), p, timestamp=ms) for p, ms, value in messages]
    job.producer.send(records)
    job.producer.flush()


def made(job, what):
    return [call[1:] for call in job.task.calls if call[0] == what]


def test_a_run_folds_every_message_and_the_next_one_goes_on_where_it_was(job):
    send(job, (0, 5, 1), (0, 15, 2), (1, 7, 10), (1, 25, 20))
    run(job)
    assert sorted(made(job, "end")) == [("Partition 0", 3), ("Partition 1", 30)]
    job.task.calls.clear()
    send(job, (0, 30, 4))
    run(job)
    assert made(job, "process") == [("Partition 0", 2)]
    assert sorted(made(job, "end")) == [("Partition 0", 7), ("Partition 1", 30)]


def test_a_message_that_is_late_for_a_cut_is_in_the_next_one(tmp_path):
    job = make(tmp_path)
    send(job, (0, 5, 1), (0, 25, 2), (0, 4, 4), (0, 26, 8), (0, 45, 16), (0, 3, 32))
    run(job)
    cuts = [(time_ms, cut) for name, time_ms, cut in made(job, "cut") if name == "Partition 0"]
    # Commits after three and after six messages; the last message is older than the first cut.
    assert cuts == [(20, 1 + 4), (40, 1 + 4 + 2 + 8 + 32)]


class SinkingTask(SummingTask):
    def on_start(self, context):
        context.task.register_sink(SqlSink(lambda: None, "rows", ["id"]))


def test_a_sink_beside_the_state_is_refused_since_it_would_not_go_back(tmp_path):
    job = make(tmp_path, **{"task.class": f"{__name__}:SinkingTask"})
    with pytest.raises(TaskFailed, match="keeps a state of its own, with which the rows of a sink do not go back"):
        run(job)
