"""What every executor of tasks does, one message at a time, in batches, and asynchronously: for every guarantee, policy
and crash, and for the calls and requests between messages."""

from typing import ClassVar

import pytest
from jobs.ledgers import JOB, AsyncLedger, BatchLedger, Ledger, ids_by_key, post, state
from jobs.memory_job import MemoryJob

from samzapy import (
    BatchTask,
    CoroutineTask,
    EndOfStream,
    EndOfStreamListenerTask,
    InitableTask,
    StreamTask,
    SystemStreamPartition,
    TimerTask,
    Watermark,
    WatermarkListenerTask,
    WindowableTask,
)
from samzapy.api.envelope import OutputId
from samzapy.api.system import OutgoingRecord
from samzapy.container.event_time.control_messages import SentControl, encode
from samzapy.errors import TaskFailed
from samzapy.system.local.factory import MemoryCluster, MemorySystemFactory
from samzapy.testing import TaskTestDriver

GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
LEDGERS = [Ledger, BatchLedger, AsyncLedger]
POLICIES = {
    "process skip": ({"task.error.process.policy": "skip"}, {4: "fail", 5: "fail", 17: "fail"}),
    "process retry": ({"task.error.process.policy": "retry(2, 0ms) then skip"}, {0: "fail", 29: "fail"}),
    "process letter": ({"task.error.process.policy": "dead-letter"}, dict.fromkeys(range(3, 30, 4), "fail")),
    "ignored": ({"task.ignored.exceptions": "ValueError"}, {11: "fail"}),
    "serialize skip": ({"task.error.serialize.policy": "skip"}, {7: "odd", 8: "odd"}),
    "serialize letter": ({"task.error.serialize.policy": "dead-letter"}, {7: "odd", 20: "odd"}),
    "produce skip": ({"task.error.produce.policy": "skip"}, {7: "large"}),
    "produce letter": ({"task.error.produce.policy": "dead-letter"}, {7: "large", 13: "large"}),
    "no failure": ({}, {}),
    "all fail": ({"task.error.process.policy": "skip"}, dict.fromkeys(range(30), "fail")),
}


def run(task, keys, orders):
    """What came of thirty messages: outputs, state, letters, and where the task stands after a restart."""
    letters = {"task.dead.letter.stream": "sys.letters"} if "dead-letter" in str(keys) else {}
    with TaskTestDriver(task, JOB | keys | letters, partitions=2) as driver:
        for ids in (range(2), range(2, 15), range(15, 30)):  # the first bring the stream of outputs into being
            post(driver, ids, orders)
            driver.run()
        driver.commit()
        driver.restart()
        found = driver.committed("letters") if letters else []
        return ids_by_key(driver.committed("out")), state(driver), sorted(map(_about, found), key=str)


def _about(letter):
    """What a letter says, but for the time, the lines of code, and the id of its input's stream."""
    apart = {"samzapy-error-time-ms", "samzapy-error-traceback", "samzapy-id"}
    about = {name: value for name, value in letter.headers if name not in apart}
    return about, letter.message["id"], OutputId.of(letter.headers) and OutputId.of(letter.headers)[1:]


@pytest.mark.parametrize("task", [BatchLedger, AsyncLedger])
@pytest.mark.parametrize("case", POLICIES)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_policy_leaves_the_same_with_every_executor(guarantee, case, task):
    keys, orders = POLICIES[case]
    keys = keys | {"task.guarantee": guarantee}
    assert run(task, keys, orders) == run(Ledger, keys, orders)


@pytest.mark.parametrize("size", ["1", "4", "0"])
def test_the_size_of_batches_changes_nothing(size):
    keys = {"task.batch.max.messages": size, "task.error.process.policy": "skip"}
    orders = {4: "fail", 11: "fail"}
    assert run(BatchLedger, keys, orders) == run(Ledger, keys, orders)


STEPS = [f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5a", "5", "6", "7")]


@pytest.mark.parametrize("task", LEDGERS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_crash_in_a_commit_leaves_what_the_guarantee_says(guarantee, step, task):
    with TaskTestDriver(task, JOB | {"task.guarantee": guarantee}, partitions=2) as driver:
        post(driver, range(10))
        driver.run()
        driver.commit()
        for first in (10, 14, 18):
            post(driver, range(first, min(first + 4, 21)))
            driver.run()
        driver.crash(at=step)
        driver.restart()
        post(driver, range(21, 25))
        driver.run()
        driver.commit()
        folded = {f"k{k}": list(range(k, 25, 3)) for k in range(3)}
        outputs, kept = driver.committed("out"), state(driver)
        if guarantee == "at-most-once":
            assert all(len(ids) <= len(folded[key]) for key, ids in kept.items())
            assert len(outputs) <= 25
            return
        assert kept == folded
        echoed = ids_by_key(outputs)
        if guarantee == "exactly-once":
            assert echoed == folded
        elif guarantee == "effectively-once":
            assert ids_by_key(_received(outputs)) == folded
        else:
            assert all(set(echoed[key]) == set(ids) for key, ids in folded.items())


def _received(outputs):
    """The outputs as a receiver takes them: one whose id is not greater than those before, of its source and partition,
    is a repetition."""
    latest = {}
    received = type(outputs)()
    for each in outputs:
        identity = OutputId.of(each.headers)
        place = identity.source, each.ssp.partition
        if (identity.offset, identity.number) > latest.get(place, (-1, -1)):
            latest[place] = (identity.offset, identity.number)
            received.append(each)
    return received


@pytest.mark.parametrize("task", LEDGERS)
def test_a_failure_without_a_policy_names_the_message_and_leaves_nothing(task):
    with TaskTestDriver(task, JOB) as driver:
        for i in range(6):
            driver.post("in", {"id": i} | ({"do": "fail"} if i == 3 else {}), "k")
        with pytest.raises(TaskFailed, match=r"process(_batch)? of sys\.in\[0\]@3 failed: ValueError: told to"):
            driver.run()
        assert not driver.running
        assert driver.changelog("ledger") == []


@pytest.mark.parametrize("task", [BatchLedger, AsyncLedger])
def test_a_message_that_does_not_decode_meets_its_policy_in_order(task):
    keys = {"task.error.deserialize.policy": "dead-letter", "task.dead.letter.stream": "sys.letters"}
    assert _undecoded(task, keys) == _undecoded(Ledger, keys)


def _undecoded(task, keys):
    with TaskTestDriver(task, JOB | keys, partitions=1) as driver:
        producer = MemorySystemFactory().producer(driver.job.systems["sys"], "test")
        values = [b'{"id":%d}' % n if n % 5 != 2 else b"{" for n in range(12)]
        producer.send([OutgoingRecord("in", b"k", value, 0) for value in values])
        producer.flush()
        producer.close()
        driver.run()
        driver.commit()
        cluster = MemoryCluster.named(driver.job.systems["sys"].properties["cluster"])
        (letters,) = cluster.batches(SystemStreamPartition("sys", "letters", 0))
        failed = [dict(headers)["samzapy-error-offset"] for headers in letters.headers]
        return ids_by_key(driver.committed("out")), state(driver, 1), failed


class Calls(InitableTask, WindowableTask, EndOfStreamListenerTask, TimerTask, WatermarkListenerTask):
    """Notes its calls; a message says in `do` what it asks for, or sets a timer."""

    log: ClassVar[list] = []
    container = None

    def init(self, context):
        self.partition = min(ssp.partition for ssp in context.task.ssps)
        self.timers = context.task.timers

    def handle(self, envelope, collector, coordinator):
        self.log.append(envelope.message["id"])
        order = envelope.message.get("do")
        if order == "commit":
            coordinator.commit()
        if order == "vote":
            coordinator.shutdown()
        if order == "stop":
            type(self).container.stop()
        if order == "timer":
            self.timers.schedule("t", envelope.event_time + 5)

    def window(self, collector, coordinator):
        self.log.append("window")

    def on_timer(self, key, time_ms, collector, coordinator):
        self.log.append("timer")

    def on_watermark(self, time_ms, collector, coordinator):
        self.log.append(("watermark", time_ms))

    def on_end_of_stream(self, collector, coordinator):
        self.log.append("end")


class SyncCalls(Calls, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.handle(envelope, collector, coordinator)


class BatchCalls(Calls, BatchTask):
    def process_batch(self, batch, collector, coordinator):
        for envelope in batch:
            self.handle(envelope, collector, coordinator)


class AsyncCalls(Calls, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        self.handle(envelope, collector, coordinator)


CALLS = [SyncCalls, BatchCalls, AsyncCalls]
TIMERS = {"stores.timers.factory": "timers", "stores.timers.changelog": "mem.timers-log"}


def job_of(folder, task, partitions=1, **keys):
    task.log = []
    return MemoryJob(folder, partitions, task, **{**TIMERS, "task.batch.max.messages": "1", **keys})


def send(job, *messages, partition=0, stream="in"):
    """Messages with their numbers; a pair has an order as well."""
    orders = [each if isinstance(each, tuple) else (each, None) for each in messages]
    job.send(*((partition, "k", {"id": n, "do": order}) for n, order in orders), stream=stream)


@pytest.mark.parametrize("task", CALLS)
def test_messages_are_processed_in_order_and_the_end_comes_once(tmp_path, task):
    job = job_of(tmp_path, task)
    send(job, *range(5))
    assert job.run().processed == 5
    assert task.log == [0, 1, 2, 3, 4, "end"]
    task.log.clear()
    assert job.run().processed == 0
    assert task.log == ["end"]


@pytest.mark.parametrize("task", CALLS)
def test_a_stop_between_messages_leaves_the_rest_to_the_next_start(tmp_path, task):
    job = job_of(tmp_path, task)
    send(job, 0, (1, "stop"), 2, 3)
    task.container, _ = job.container()
    report = task.container.run()
    assert "end" not in task.log
    assert report.positions == {"mem.in[0]": len(task.log)}
    job.run()
    assert task.log == [0, 1, 2, 3, "end"]


@pytest.mark.parametrize("task", CALLS)
def test_the_votes_of_all_tasks_end_the_run_without_its_end(tmp_path, task):
    job = job_of(tmp_path, task, partitions=2)
    for partition in range(2):
        send(job, (0, "vote"), partition=partition)
    report = job.container(until_end=False)[0].run()
    assert (report.phase, task.log) == ("done", [0, 0])


@pytest.mark.parametrize("task", CALLS)
def test_a_commit_that_a_message_requests_covers_it(tmp_path, task):
    job = job_of(tmp_path, task)
    send(job, 0, (1, "commit"))
    container, _ = job.container()
    report = container.run()
    assert report.commits >= 3, "at the start, as requested, at the end"


@pytest.mark.parametrize("task", CALLS)
def test_an_event_timer_fires_when_messages_have_brought_its_time(tmp_path, task):
    job = job_of(tmp_path, task)
    job.producer.send(
        [
            OutgoingRecord("in", b"k", b'{"id": %d, "do": "%s"}' % (n, do), 0, timestamp=time)
            for n, do, time in ((0, b"timer", 10), (1, b"", 20))
        ]
    )
    job.producer.flush()
    job.run()
    assert task.log == [0, 1, "timer", "end"]


@pytest.mark.parametrize("task", CALLS)
def test_a_control_message_comes_after_the_messages_before_it(tmp_path, task):
    keys = {"systems.mem.streams.in.samza.intermediate": "true", "task.batch.max.messages": "0"}
    job = job_of(tmp_path, task, **keys)
    send(job, 0, 1)
    for message in (Watermark(50), EndOfStream()):
        key, value, headers = encode(SentControl("sender/0", 1, message))
        job.producer.send([OutgoingRecord("in", key, value, 0, headers=headers)])
    job.producer.flush()
    job.container(until_end=False)[0].run()
    assert task.log == [0, 1, ("watermark", 50), "end"]


@pytest.mark.parametrize("task", CALLS)
def test_windows_are_called_between_messages(task):
    task.log = []
    keys = {**JOB, "task.window.ms": "1000", "stores.timers.factory": "timers", "stores.timers.changelog": "sys.t"}
    with TaskTestDriver(task, keys) as driver:
        driver.post("in", {"id": 0}, "k")
        driver.advance(1.0)
        driver.send("in", {"id": 1}, "k")
        driver.advance(1.0)
    assert task.log in ([0, "window", 1, "window"], ["window", 0, 1, "window"])


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("task", CALLS)
def test_a_result_that_is_returned_ends_the_attempt(task, policy):
    returning = type(f"Returning{task.__name__}", (task,), {"handle": lambda *_: 1, "__module__": __name__})
    for name in ("process", "process_batch"):
        if hasattr(task, name):
            setattr(returning, name, RETURNING[task])
    keys = {**JOB, **{k: v.replace("mem", "sys") for k, v in TIMERS.items()}, "task.error.process.policy": policy}
    with TaskTestDriver(returning, keys) as driver:
        driver.post("in", {"id": 0}, "k")
        with pytest.raises(TaskFailed, match=r"process(_batch)? of sys\.in\[0\]@0 returned an int, which goes nowhere"):
            driver.run()


def _returns(*_):
    return 1


async def _returns_later(*_):
    return 1


RETURNING = {SyncCalls: _returns, BatchCalls: _returns, AsyncCalls: _returns_later}
