"""Sinks in a task's life: opened after `init`, committed with the offsets, asked where to start."""

import asyncio
import sqlite3
from contextlib import closing
from typing import ClassVar

import pytest
from jobs.memory_job import MemoryJob

from samzapy import CoroutineTask, InitableTask, Sink, StreamTask, SystemStreamPartition
from samzapy.errors import EnvironmentFailure, TaskFailed
from samzapy.failpoints import FailPointReached, arm
from samzapy.sinks import SqlSink

SSP = SystemStreamPartition("mem", "in", 0)
RESET = "systems.mem.streams.in.samza.reset.offset"


class PlainSink(Sink):
    """A user's sink without offsets; every call of every instance is in `calls`."""

    calls: ClassVar[list] = []

    def __init__(self, name="plain", broken="", limit=1000):
        self._name, self._broken, self._limit, self._waiting = name, broken, limit, 0

    @property
    def name(self):
        return self._name

    def write(self):
        self._waiting += 1

    def open(self, attempt):
        self._call("open", attempt.job, attempt.task, attempt.ssps)
        return {}

    def commit(self, offsets):
        self._call("commit", dict(offsets))
        self._waiting = 0

    def full(self):
        self._fail_in("full")
        return self._waiting >= self._limit

    def forget(self, envelope):
        self._fail_in("forget")

    def metrics(self):
        self._fail_in("metrics")
        return {"waiting": self._waiting}

    def close(self):
        self._call("close")

    def _call(self, what, *details):
        self.calls.append((what, *details))
        self._fail_in(what)

    def _fail_in(self, what):
        if what == self._broken:
            raise OSError("told to")


class PlainTask(StreamTask, InitableTask):
    sinks: ClassVar[list] = []

    def init(self, context):
        PlainSink.calls.append(("init",))
        for sink in self.sinks:
            context.task.register_sink(sink)
        PlainTask.context = context

    def process(self, envelope, collector, coordinator):
        PlainSink.calls.append(("process", envelope.offset))
        for sink in self.sinks:
            sink.write()
        if envelope.message.get("fails"):
            raise ValueError("told to")


class SeenTask(StreamTask, InitableTask):
    """Writes the ids it sees; `start` is an offset to set in `init`."""

    path = ""
    start = None

    def init(self, context):
        self.sink = SqlSink(lambda: sqlite3.connect(SeenTask.path), "seen", ["id"])
        context.task.register_sink(self.sink)
        if self.start is not None:
            context.task.set_starting_offset(SSP, self.start)

    def process(self, envelope, collector, coordinator):
        self.sink.write((envelope.message["id"],), envelope)


class MoodyTask(SeenTask):
    """Writes the id twice, and may fail in between: `fails` is how often."""

    def process(self, envelope, collector, coordinator):
        message = envelope.message
        self.sink.write((message["id"],), envelope)
        if message.get("fails", 0) > self.failed.get(message["id"], 0):
            self.failed[message["id"]] = self.failed.get(message["id"], 0) + 1
            raise ValueError("told to")
        self.sink.write((message["id"] * 10,), envelope)

    failed: ClassVar[dict] = {}


class MoodyCoroutineTask(CoroutineTask, InitableTask):
    """The same with messages in flight; one waits for another if it is told to."""

    def init(self, context):
        self.task = MoodyTask()
        self.task.init(context)
        self.gate = asyncio.Event()

    async def process(self, envelope, collector, coordinator):
        message = envelope.message
        if message.get("opens"):
            self.gate.set()
        if message.get("waits"):
            await self.gate.wait()
        self.task.process(envelope, collector, coordinator)
        if message.get("commits"):
            coordinator.commit()


@pytest.fixture
def plain(tmp_path, monkeypatch):
    def make(*sinks, **keys):
        monkeypatch.setattr(PlainTask, "sinks", sinks)
        monkeypatch.setattr(PlainSink, "calls", [])
        return MemoryJob(tmp_path / "state", partitions=1, task=PlainTask, **keys)

    return make


@pytest.fixture
def make_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(SeenTask, "path", str(tmp_path / "seen.db"))
    monkeypatch.setattr(MoodyTask, "failed", {})

    def query(statement):
        with closing(sqlite3.connect(SeenTask.path)) as connection, connection:
            return connection.execute(statement).fetchall()

    def make(task, **keys):
        job = MemoryJob(tmp_path / "state", partitions=1, task=task, **keys)
        job.query = query
        job.ids = lambda: [i for (i,) in query("SELECT id FROM seen")]
        return job

    query("CREATE TABLE seen (id INTEGER)")
    return make


@pytest.fixture
def seen(make_seen):
    return make_seen(SeenTask)


def send(job, *ids):
    job.send(*[(0, "k", {"id": i}) for i in ids])


def test_a_sink_is_opened_after_init_committed_with_the_offsets_and_closed(plain):
    job = plain(PlainSink())
    send(job, 1, 2)
    report = job.run()
    assert PlainSink.calls == [
        ("init",),
        ("open", "counting-1", "Partition 0", {SSP}),
        ("commit", {SSP: 0}),
        ("process", 0),
        ("process", 1),
        ("commit", {SSP: 2}),
        ("close",),
    ]
    assert report.metrics["Partition 0"]["sink.plain.waiting"] == 0


@pytest.mark.parametrize("call", ["open", "commit", "full", "forget"])
def test_what_a_sink_raises_ends_the_attempt_and_every_sink_is_closed(plain, call):
    skips = {"task.error.process.policy": "skip"}
    job = plain(PlainSink("good"), PlainSink("bad", broken=call), **skips)
    job.send((0, "k", {"id": 1, "fails": True}))
    with pytest.raises(TaskFailed, match=f"Partition 0: {call} of sink 'bad' failed: OSError: told to"):
        job.run()
    assert PlainSink.calls.count(("close",)) == 2


def test_a_task_without_a_checkpoint_starts_where_its_sink_has_got_to(seen):
    send(seen, *range(5))
    seen.run()
    # Another job of that name has no checkpoint, and would start at the end.
    again = {"task.checkpoint.system": "mem", "systems.mem.streams.in.samza.offset.default": "upcoming"}
    seen.query("UPDATE samzapy_offsets SET next_offset = 3")
    seen.admin.delete("__samza_checkpoint_ver_1_for_counting_1")
    seen.run(**again)
    assert seen.ids() == [0, 1, 2, 3, 4, 3, 4]


def test_a_sink_behind_the_checkpoint_is_refused_with_both_offsets(seen):
    send(seen, *range(5))
    seen.run()
    seen.query("UPDATE samzapy_offsets SET next_offset = 2")
    behind = r"sink 'seen' has mem.in\[0\] up to offset 2, the checkpoint says 5: .*samza.reset.offset=true"
    with pytest.raises(EnvironmentFailure, match=behind):
        seen.run()


def test_a_sink_that_was_behind_gets_its_rows_by_a_reset_and_none_twice(seen):
    send(seen, *range(5))
    seen.run()
    seen.query("DELETE FROM seen WHERE id >= 2")
    seen.query("UPDATE samzapy_offsets SET next_offset = 2")
    seen.run(**{RESET: "true"})
    assert seen.ids() == [0, 1, 2, 3, 4]


def test_a_sink_without_the_checkpoints_offset_is_said_and_counted(plain, seen, caplog):
    keeps_none = plain(PlainSink())
    for job, lacking in ((keeps_none, 1), (seen, 0)):
        send(job, 1)
        first, again = job.run(), job.run()
        assert first.metrics["guarantee"]["sink-offsets-missing"] == 0
        assert again.metrics["guarantee"]["sink-offsets-missing"] == lacking
    assert "counting-1/Partition 0: sink 'plain' has no offset of mem.in[0], the checkpoint has" in caplog.text


@pytest.mark.parametrize("concurrency", ["1", "3"])
@pytest.mark.parametrize("task", [MoodyTask, MoodyCoroutineTask])
def test_a_message_that_is_skipped_has_no_rows(make_seen, task, concurrency):
    job = make_seen(task, **{"task.error.process.policy": "skip", "task.max.concurrency": concurrency})
    job.send((0, "k", {"id": 1}), (0, "k", {"id": 2, "fails": 1}), (0, "k", {"id": 3}))
    job.run()
    assert sorted(job.ids()) == [1, 3, 10, 30]


def test_rows_of_messages_done_early_wait_for_the_ones_before_them(make_seen):
    keys = {"task.max.concurrency": "3", "task.async.commit": "true", "task.commit.ms": "50000"}
    job = make_seen(MoodyCoroutineTask, **keys)
    job.send((0, "a", {"id": 1}), (0, "b", {"id": 2, "waits": True}), (0, "c", {"id": 3, "commits": True}))
    # The second message is in flight when the commit comes, and the attempt ends right after it.
    arm("commit.7", 2)
    with pytest.raises(FailPointReached):
        job.run()
    assert sorted(job.ids()) == [1, 10]
    job.send((0, "d", {"id": 4, "opens": True}))
    job.run()
    assert sorted(job.ids()) == [1, 2, 3, 4, 10, 20, 30, 40]
