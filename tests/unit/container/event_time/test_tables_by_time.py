"""A table that is read in the order of a timestamp: every version of a row is processed exactly once, however many rows
share a time, wherever a run ends, and whatever happens to the table until the next."""

import sqlite3
from collections import Counter
from contextlib import closing, suppress
from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import CoroutineTask, InitableTask, OutgoingMessageEnvelope, StreamTask
from samzapy.errors import TaskFailed
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.testing import ManualClock

TIMES = ["2024-01-01 10:00:00", "2024-01-01 10:00:01", "2024-01-01 10:00:01.5", "2024-01-01 10:00:02"]
GUARANTEES = ["effectively-once", "exactly-once"]


class Versions(InitableTask):
    """Counts the versions of rows, and asks for a commit after each message. `ends` maps the number of a message, over
    all instances, to what happens after it."""

    ends: ClassVar[dict] = {}
    seen: ClassVar[list] = []
    container = None

    def init(self, context):
        self.counts = context.get_store("counts")

    def count(self, envelope, collector, coordinator):
        version = "{id}@{changed}".format(**envelope.message)
        self.counts.put(version, (self.counts.get(version) or 0) + 1)
        collector.send(OutgoingMessageEnvelope(OUT, version, key=version))
        coordinator.commit()
        kind = type(self)
        kind.seen.append(version)
        end = kind.ends.pop(len(kind.seen), None)
        if end == "fail":
            raise ValueError("told to")
        if end == "shut down":
            coordinator.shutdown()
        if end == "stop":
            kind.container.stop()


class VersionTask(StreamTask, Versions):
    def process(self, envelope, collector, coordinator):
        self.count(envelope, collector, coordinator)


class LaterTask(CoroutineTask, Versions):
    async def process(self, envelope, collector, coordinator):
        self.count(envelope, collector, coordinator)


@pytest.fixture(autouse=True)
def reset():
    yield
    disarm()
    for task in (VersionTask, LaterTask):
        task.ends, task.seen = {}, []


class Table:
    def __init__(self, path):
        self.path = path
        self.ever = set()
        self.write("CREATE TABLE t (id TEXT PRIMARY KEY, changed TIMESTAMP NOT NULL)")

    def put(self, **changed):
        for name, time in changed.items():
            self.write("INSERT OR REPLACE INTO t VALUES (?, ?)", name, time)
            self.ever.add(f"{name}@{time}")

    def write(self, statement, *values):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(statement, values)


@pytest.fixture
def table(tmp_path):
    table = Table(tmp_path / "shop.db")
    table.put(**{f"r{number:02}": TIMES[number % 4] for number in range(16)})
    return table


@pytest.fixture
def job_of(tmp_path, table):
    def make(task=VersionTask, guarantee="exactly-once", **keys):
        return MemoryJob(
            tmp_path / "state",
            task=task,
            **{
                "task.inputs": "shop.t",
                "task.guarantee": guarantee,
                "task.checkpoint.system": "mem",
                "task.checkpoint.factory": "topic",
                "task.poll.batch.size": "3",
                "task.commit.ms": "1000",
                "systems.shop.samza.factory": "database",
                "systems.shop.database.url": f"sqlite:///{table.path}",
                "streams.t.samza.offset.default": "oldest",
                "streams.t.samza.system": "shop",
                "streams.t.samza.key.serde": "string",
                "streams.t.samza.msg.serde": "json",
                "streams.t.database.order.by": "changed",
                "streams.t.database.partitions": "2",
                "streams.t.database.poll.interval.ms": "1",
                **keys,
            },
        )

    return make


def run(job):
    """Run to the table's end; whether it got there."""
    job.task.container, _ = job.container()
    try:
        job.task.container.run()
    except (FailPointReached, TaskFailed):
        return False
    return True


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("step", [*(pytest.param(step, marks=pytest.mark.slow) for step in (1, 2, 7)), 3, 4, 5, 6])
@pytest.mark.parametrize("nth", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_crash_after_any_step_of_any_commit_repeats_no_row_and_misses_none(job_of, table, guarantee, step, nth):
    job = job_of(guarantee=guarantee)
    arm(f"commit.{step}", nth=nth)
    run(job)
    # One row of each second has changed, one came late to the last.
    table.put(r00=TIMES[3], r01=TIMES[3], late=TIMES[3])
    disarm()
    assert run(job)
    assert run(job)
    check(job, table, guarantee)


@pytest.mark.parametrize("task", [VersionTask, LaterTask])
@pytest.mark.parametrize("end", ["fail", "stop", "shut down"])
@pytest.mark.parametrize(
    "after", [pytest.param(1, marks=pytest.mark.slow), 6, pytest.param(16, marks=pytest.mark.slow)]
)
def test_a_run_that_ends_after_any_row_leaves_the_others_to_the_next(job_of, table, task, end, after):
    job = job_of(task=task, **{"task.max.concurrency": "2"} if task is LaterTask else {})
    task.ends = {after: end}
    run(job)
    table.put(r03="2024-01-01 10:00:03")
    with suppress(TaskFailed):
        assert run(job)
    assert run(job)
    check(job, table, "exactly-once")


def test_at_most_once_repeats_no_row_of_a_second_that_was_processed_in_part(job_of, table):
    # Three of the four rows of the first second are polled.
    job = job_of(guarantee="at-most-once", **{"streams.t.database.partitions": "1"})
    VersionTask.ends = {2: "fail"}
    assert not run(job)
    assert run(job)
    assert max(Counter(VersionTask.seen).values()) == 1


def test_a_job_that_reads_other_inputs_too_commits_them_together(job_of, table):
    job = job_of(**{"task.inputs": "shop.t,mem.in"})
    job.send(*((number % 2, "k", {"id": f"m{number}", "changed": "-"}) for number in range(20)))
    table.ever |= {f"m{number}@-" for number in range(20)}
    VersionTask.ends = {4: "fail", 9: "stop", 15: "fail"}
    while not run(job) or VersionTask.ends:
        pass
    assert run(job)
    check(job, table, "exactly-once")


def check(job, table, guarantee):
    state = job.changelog()
    # What changed before it was read was never seen; nothing was counted twice.
    assert set(state.values()) == {1}
    with closing(sqlite3.connect(table.path)) as connection:
        rows = {f"{name}@{time}" for name, time in connection.execute("SELECT id, changed FROM t")}
    assert rows <= set(state) <= table.ever
    if guarantee == "exactly-once":
        assert Counter(value for _, value in job.outputs()) == Counter(state)


class SlowTask(StreamTask):
    """Each row takes 10 ms, so that all slices but the first have five rows."""

    clock: ClassVar[ManualClock]

    def process(self, envelope, collector, coordinator):
        self.clock.advance(0.01)


def test_a_commit_that_is_due_inside_a_group_is_made_at_an_end_within_the_poll(job_of, table):
    table.write("DELETE FROM t")
    with closing(sqlite3.connect(table.path)) as connection, connection:
        rows = [(f"r{n:03}", f"2024-01-01 10:{n // 7:02}:00") for n in range(280)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    SlowTask.clock = ManualClock()
    keys = {"streams.t.database.partitions": "1", "task.poll.batch.size": "1000", "task.commit.ms": "900"}
    container, _ = job_of(SlowTask, **keys).container(clock=SlowTask.clock)
    report = container.run()
    assert report.processed == 280
    # Due after the rows 100 and 190, made after the rows 105 and 210. The others are the first and the last commit.
    assert report.metrics["commit"]["commits"] == 4
