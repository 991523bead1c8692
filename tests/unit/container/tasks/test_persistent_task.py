"""PersistentTask in a container: exactly once in its state, whatever ends an attempt."""

import json

import pytest
from jobs.memory_job import MemoryJob

from samzapy import EndOfStreamListenerTask, OutgoingMessageEnvelope, SystemStream
from samzapy.admin.positions import Move, move_positions, write_startpoints
from samzapy.api.system import OutgoingRecord
from samzapy.checkpoint.offsets import Target
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.coordinator.clocks import Clocks
from samzapy.errors import ConfigError, RestoreError, TaskFailed
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.operators.persistent import NonWindowState, PersistentTask, Sum
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.sinks import SqlSink

OUT = SystemStream("mem", "out")
INTERVAL = 10


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


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


@pytest.fixture(params=["topic", "file"])
def job(request, tmp_path):
    made = make(tmp_path, request.param)
    yield made
    disarm()


def make(folder, store="topic", **keys):
    job = MemoryJob(
        folder,
        task=SummingTask,
        **{
            "state.checkpoint.interval.ms": str(INTERVAL),
            "state.checkpoint.store.factory": store,
            "state.checkpoint.path": str(folder / "states"),
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


def test_the_clocks_are_known_to_a_driver_that_starts_again(job):
    send(job, (0, 5, 1), (0, 35, 2), (1, 27, 10))
    status = run(job).status
    assert (status.clocks.job, status.clocks.checkpoint) == (35, 20)
    kept = prepare(load_job(job.flat)).clocks
    assert (dict(kept.tasks), kept.checkpoint) == ({"Partition 0": 35, "Partition 1": 27}, 20)
    # Partition 1 has ended, so it did not hold the job's clock; in a new run it may bring something again.
    assert Clocks(kept.tasks, kept, 60.0, SYSTEM_CLOCK).status().job == 27


def test_a_state_s_positions_are_moved_by_a_startpoint_only(tmp_path):
    job = make(tmp_path)
    model = prepare(load_job(job.flat)).model
    with pytest.raises(ConfigError, match=r"task\.class: keeps its positions .*samzapy startpoint set"):
        move_positions(job.config, model, Move(Target("oldest")), lambda seconds: None)


def test_exactly_once_says_what_it_does_not_cover(tmp_path):
    job = make(tmp_path, **{"task.guarantee": "exactly-once"})
    warnings = [str(warning) for warning in prepare(load_job(job.flat)).guarantee_warnings]
    assert any(line.startswith("task.class: outputs that it sends with a checkpoint of its state") for line in warnings)


def test_a_job_that_was_never_stopped_in_order_begins_at_its_first_position_again(job):
    send(job, (0, 5, 1), (0, 6, 2))
    arm("commit.5", 2)
    with pytest.raises(FailPointReached):
        run(job)
    send(job, (0, 7, 4))
    run(job)
    assert made(job, "end")[-2:] in ([("Partition 0", 7), ("Partition 1", 0)], [("Partition 1", 0), ("Partition 0", 7)])


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "effectively-once", "exactly-once"])
@pytest.mark.parametrize(
    "step", [*map(slow, ["start.6", "start.7", "commit.1", "commit.5", "commit.7", "state.persisted"]), "state.taken"]
)
def test_the_state_has_every_message_once_and_no_output_is_repeated_after_a_crash_at(tmp_path, guarantee, step):
    job = make(tmp_path, **{"task.guarantee": guarantee})
    send(job, *[(n % 2, 3 * n, 1 << n) for n in range(8)])
    run(job)
    send(job, *[(n % 2, 3 * n, 1 << n) for n in range(8, 24)])
    arm(step, 1 if step.startswith("start") else 2)
    try:
        with pytest.raises((FailPointReached, TaskFailed)):
            run(job)
    finally:
        disarm()
    run(job)
    ends = dict(made(job, "end")[-2:])
    assert ends == {
        "Partition 0": sum(1 << n for n in range(0, 24, 2)),
        "Partition 1": sum(1 << n for n in range(1, 24, 2)),
    }
    outputs = sorted(message["out"] for _, message in job.outputs())
    if guarantee == "exactly-once":
        assert outputs == [1 << n for n in range(24)]
    elif guarantee == "at-least-once":
        assert sorted(set(outputs)) == [1 << n for n in range(24)]
    elif guarantee == "at-most-once":
        assert len(outputs) == len(set(outputs))


def test_a_failed_message_leaves_nothing_in_the_state(tmp_path):
    job = make(tmp_path, **{"task.error.process.policy": "skip"})
    send(job, (0, 1, 1), (0, 2, "fail"), (0, 3, 4))
    run(job)
    assert dict(made(job, "end"))["Partition 0"] == 5


def test_a_message_that_is_late_for_a_cut_is_in_the_next_one(tmp_path):
    job = make(tmp_path)
    send(job, (0, 5, 1), (0, 25, 2), (0, 4, 4), (0, 26, 8), (0, 45, 16), (0, 3, 32))
    run(job)
    cuts = [(time_ms, cut) for name, time_ms, cut in made(job, "cut") if name == "Partition 0"]
    # Commits after three and after six messages; the last message is older than the first cut.
    assert cuts == [(20, 1 + 4), (40, 1 + 4 + 2 + 8 + 32)]


def test_a_store_that_is_gone_is_told_instead_of_counting_from_nothing(tmp_path):
    job = make(tmp_path, "file")
    send(job, (0, 5, 1))
    run(job)
    for path in (tmp_path / "states").rglob("*.state"):
        path.unlink()
    with pytest.raises(RestoreError, match=r"Partition \d: the job has committed and has no state checkpoint"):
        run(job)
    run(job, **{"systems.mem.streams.in.samza.reset.offset": "true"})
    assert dict(made(job, "end"))["Partition 0"] == 1


def test_reset_inputs_reset_the_state(job):
    send(job, (0, 5, 1), (0, 15, 2))
    run(job)
    run(job, **{"systems.mem.streams.in.samza.reset.offset": "true"})
    assert dict(made(job, "end")[-2:])["Partition 0"] == 3


def test_a_state_of_another_shape_is_refused_by_its_place(tmp_path):
    job = make(tmp_path, "file")
    send(job, (0, 5, 1))
    run(job)
    (path,) = (tmp_path / "states").rglob("Partition%200/*.state")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"x")
    with pytest.raises(RestoreError, match=r"\.state: the state is damaged"):
        run(job)


def test_a_startpoint_moves_the_inputs_and_leaves_the_state_as_it_is(tmp_path):
    job = make(tmp_path)
    send(job, (0, 5, 1), (0, 15, 2), (0, 25, 4))
    run(job)
    write_startpoints(job.config, prepare(load_job(job.flat)).model, "1", ("mem.in[0]",))
    arm("start.7")
    with pytest.raises(FailPointReached):
        run(job)
    disarm()
    run(job)
    assert made(job, "end")[-1] == ("Partition 0", 7 + 2 + 4) or made(job, "end")[-2] == ("Partition 0", 7 + 2 + 4)
    # Wanted once more, so it is sent once more.
    assert [message["out"] for _, message in job.outputs()] == [1, 2, 4, 2, 4]
    run(job)
    assert dict(made(job, "end")[-2:])["Partition 0"] == 13


def test_a_store_beside_the_state_is_refused_since_it_would_not_go_back(tmp_path):
    job = make(tmp_path)
    stores = {"stores.s.factory": "inmemory", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}
    with pytest.raises(ConfigError, match=r"stores\.s\.factory: SummingTask keeps a state of its own"):
        run(job, **stores)


class SinkingTask(SummingTask):
    def on_start(self, context):
        context.task.register_sink(SqlSink(lambda: None, "rows", ["id"]))


def test_a_sink_beside_the_state_is_refused_since_it_would_not_go_back(tmp_path):
    job = make(tmp_path, **{"task.class": f"{__name__}:SinkingTask"})
    with pytest.raises(TaskFailed, match="keeps a state of its own, with which the rows of a sink do not go back"):
        run(job)


def test_a_factory_that_is_none_is_refused(tmp_path):
    job = make(tmp_path, "samzapy.errors:SamzapyError")
    with pytest.raises(ConfigError, match=r"state\.checkpoint\.store\.factory: must be a CheckpointStoreFactory"):
        run(job)
