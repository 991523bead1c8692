"""Asynchronous tasks: what is in flight, what a commit covers, and what ends an attempt."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from jobs.memory_job import GUARANTEES, OUT, MemoryJob

from samzapy import (
    AsyncStreamTask,
    ClosableTask,
    CoroutineTask,
    EndOfStreamListenerTask,
    InitableTask,
    OutgoingMessageEnvelope,
    SystemStream,
    WindowableTask,
)
from samzapy.api.system import StreamSpec
from samzapy.errors import TaskFailed, TaskMigrated
from samzapy.testing import ManualClock


class GatedTask(CoroutineTask, InitableTask, ClosableTask, WindowableTask, EndOfStreamListenerTask):
    """A message waits for the gate it names, and opens the one it names; counts and echoes when it is through."""

    calls: ClassVar[list] = []
    failures: ClassVar[dict] = {}

    async def init(self, context):
        await asyncio.sleep(0)
        self.name = context.task.task_name
        self.counts, self.metrics = context.get_store("counts"), context.container.metrics
        self.gates, self.flying = {}, 0
        self.calls.append(("init", self.name))

    def gate(self, name):
        return self.gates.setdefault(name, asyncio.Event())

    async def process(self, envelope, collector, coordinator):
        message = envelope.message
        self.calls.append(("start", message["id"]))
        self.flying += 1
        self.most[0] = max(self.most[0], self.flying)
        collector.send(OutgoingMessageEnvelope(OUT, {"id": message["id"]}, key=envelope.key))
        try:
            if "open" in message:
                self.gate(message["open"]).set()
            if "wait" in message:
                await self.gate(message["wait"]).wait()
            await asyncio.sleep(0)
            if message.get("do") == "cancelled":
                call = asyncio.get_running_loop().create_future()
                call.cancel()
                await call
        except asyncio.CancelledError:
            self.calls.append(("cancelled", message["id"]))
            raise
        finally:
            self.flying -= 1
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)
        self.order(message, collector, coordinator)
        self.calls.append(("end", message["id"]))

    def order(self, message, collector, coordinator):
        order = message.get("do")
        if order == "fail" and self.failures.get(message["id"], 1):
            self.failures[message["id"]] = self.failures.get(message["id"], 10**9) - 1
            raise ValueError("told to")
        if order == "commit":
            coordinator.commit()
        if order == "unserializable":
            collector.send(OutgoingMessageEnvelope(OUT, object(), key="k"))
        if order == "astray":
            collector.send(OutgoingMessageEnvelope(SystemStream("nowhere", "out"), 1))
        if order == "huge":
            collector.send(OutgoingMessageEnvelope(OUT, "x" * 1_000_013, key="k"))

    async def window(self, collector, coordinator):
        self.calls.append(("window", self.flying))
        await asyncio.sleep(0)

    async def on_end_of_stream(self, collector, coordinator):
        self.calls.append(("end-of-stream", self.flying))

    async def close(self):
        await asyncio.sleep(0)
        self.calls.append(("close", self.name))


class AsyncJob(MemoryJob):
    def __init__(self, folder, concurrency=4, task=GatedTask, **keys):
        GatedTask.failures, GatedTask.most = {}, [0]
        keys = {"task.commit.ms": "50000", "task.max.concurrency": str(concurrency), **keys}
        super().__init__(folder, partitions=1, task=task, **keys)
        self.admin.create(StreamSpec("dead", 1))

    def send(self, *messages, key=None):
        super().send(*[(0, key or f"key-{m['id']}", m) for m in messages])

    def ended(self):
        return [call[1] for call in self.task.calls if call[0] == "end"]

    def started(self):
        return [call[1] for call in self.task.calls if call[0] == "start"]

    def ids(self):
        return [message["id"] for _, message in self.outputs()]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_messages_start_in_order_end_in_any_and_are_sent_when_they_end(tmp_path, guarantee):
    job = AsyncJob(tmp_path, **{"task.guarantee": guarantee})
    job.send({"id": 0, "wait": "a"}, {"id": 1, "wait": "b"}, {"id": 2, "open": "b"}, {"id": 3, "open": "a"})
    report = job.run()
    assert job.started() == [0, 1, 2, 3]
    assert set(job.ended()) == {0, 1, 2, 3}
    assert job.ended().index(0) > job.ended().index(2)
    assert sorted(job.ids()) == [0, 1, 2, 3]
    assert report.positions == {"mem.in[0]": 4}
    assert job.changelog() == {f"key-{i}": 1 for i in range(4)}


def test_a_task_lives_through_its_coroutine_methods_in_order(tmp_path):
    job = AsyncJob(tmp_path)
    job.send({"id": 0})
    job.run()
    assert [call[0] for call in job.task.calls] == ["init", "start", "end", "end-of-stream", "close"]


def test_a_commit_waits_for_what_is_in_flight_and_starts_nothing_meanwhile(tmp_path):
    job = AsyncJob(tmp_path, 2)
    # The second asks for a commit while the first is in flight; the third opens the first's gate only after it.
    job.send({"id": 0, "wait": "a"}, {"id": 1, "do": "commit", "open": "a"}, {"id": 2, "do": "fail"})
    with pytest.raises(TaskFailed, match=r"process of mem\.in\[0\]@2 failed: ValueError: told to"):
        job.run()
    assert job.changelog() == {"key-0": 1, "key-1": 1}
    assert job.run(**{"task.ignored.exceptions": "*"}).positions == {"mem.in[0]": 3}
    assert sorted(job.ids()) == [0, 1]


def test_commits_with_messages_in_flight_cover_the_contiguous_prefix_only(tmp_path):
    keys = {"task.async.commit": "true", "task.callback.timeout.ms": "200"}
    job = AsyncJob(tmp_path, 3, **keys)
    job.send({"id": 0}, {"id": 1, "wait": "never"}, {"id": 2, "do": "commit"})
    with pytest.raises(TaskFailed, match=r"@1 was not completed"):
        job.run()
    job.task.calls.clear()
    with pytest.raises(TaskFailed, match=r"@1 was not completed"):
        job.run()
    assert job.started() == [1, 2]
    assert set(job.ids()) == {0, 2}


@pytest.mark.parametrize("when", ["in flight", "idle"])
def test_a_stop_lets_what_is_in_flight_end_and_commits_it(tmp_path, when):
    job = AsyncJob(tmp_path, 2)
    job.send({"id": 0}, {"id": 1, "open": "x"})
    container, _ = job.container(until_end=False)
    original = GatedTask.order

    # Long enough for the loop to have nothing to do; a stop that comes earlier must do the same.
    stopper = threading.Timer(0.3, container.stop)

    def stopping(self, message, collector, coordinator):
        if when == "in flight":
            container.stop()
        elif message["id"] == 1:
            stopper.start()

    GatedTask.order = stopping
    try:
        report = container.run()
    finally:
        stopper.cancel()
        GatedTask.order = original
    assert report.phase == "done"
    assert job.changelog() == {"key-0": 1, "key-1": 1}
    assert job.run().processed == 0


def test_a_stop_does_not_wait_longer_than_it_may_and_commits_nothing_then(tmp_path):
    job = AsyncJob(tmp_path, 2, **{"task.shutdown.ms": "50"})
    job.send({"id": 0, "wait": "never"}, {"id": 1, "do": "stop"})
    container, _ = job.container(until_end=False)
    original = GatedTask.order
    GatedTask.order = lambda self, message, *_: container.stop() if message.get("do") == "stop" else None
    try:
        with pytest.raises(
            TaskFailed, match=r"still in flight 50 ms \(task.shutdown.ms\) after the stop: Partition 0 \(1\)"
        ):
            container.run()
    finally:
        GatedTask.order = original
    assert job.changelog() == {}


def test_a_container_that_lost_its_lease_waits_for_nothing_in_flight(tmp_path):
    job = AsyncJob(tmp_path)
    job.send({"id": 0, "wait": "never"})
    container, coordinator = job.container(until_end=False)
    coordinator.register("0")
    with pytest.raises(TaskMigrated):
        container.run()


def test_a_window_is_called_with_nothing_in_flight(tmp_path):
    job = AsyncJob(tmp_path, 8, **{"task.window.ms": "1"})
    job.send(*[{"id": i} for i in range(2_000)])
    job.run()
    windows = [call for call in job.task.calls if call[0] == "window"]
    assert windows
    assert {flying for _, flying in windows} == {0}


def test_a_message_that_is_tried_again_keeps_its_place(tmp_path):
    job = AsyncJob(tmp_path, 1, **{"task.error.process.policy": "retry(5, 1ms)"})
    GatedTask.failures = {1: 3}
    job.send({"id": 0}, {"id": 1, "do": "fail"}, {"id": 2})
    job.run()
    assert job.started() == [0, 1, 1, 1, 1, 2]
    assert job.changelog() == {"key-0": 1, "key-1": 1, "key-2": 1}
    assert job.ids() == [0, 1, 2]


class PoolTask(AsyncStreamTask, InitableTask, ClosableTask):
    """Does its work in a thread, as the message says."""

    calls: ClassVar[list] = []

    def init(self, context):
        self.counts = context.get_store("counts")
        self.pool = ThreadPoolExecutor(4)

    def process_async(self, envelope, collector, coordinator, callback):
        order = envelope.message.get("do")
        if order == "now":
            self.count(envelope)
            callback.complete()
        elif order == "raise":
            raise ValueError("at once")
        else:
            self.pool.submit(self.work, order, envelope, collector, callback)

    def work(self, order, envelope, collector, callback):
        try:
            collector.send(OutgoingMessageEnvelope(OUT, envelope.message, key=envelope.key))
            if order == "store":
                self.counts.get("k")
            if order == "fail":
                raise ValueError("in a thread")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001
            callback.failure(error)
            return
        callback.complete(lambda: self.count(envelope))
        if order == "twice":
            callback.complete(lambda: self.count(envelope))
            callback.failure(ValueError("too late"))
        if order == "late":
            self.late(collector)

    def late(self, collector):
        self.calls.append(collector)

    def count(self, envelope):
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)
        if envelope.message.get("do") == "then":
            raise ValueError("in then")

    def close(self):
        self.pool.shutdown()


@pytest.mark.parametrize("order", ["now", "thread"])
def test_callbacks_may_complete_at_once_or_from_any_thread(tmp_path, order):
    job = AsyncJob(tmp_path, 8, task=PoolTask)
    job.send(*[{"id": i, "do": order} for i in range(500)])
    assert job.run().processed == 500
    assert job.changelog() == {f"key-{i}": 1 for i in range(500)}
    assert len(job.outputs()) == (0 if order == "now" else 500)


class FailingTask(AsyncStreamTask):
    """Fails every message with the object named in it."""

    calls: ClassVar[list] = []
    errors: ClassVar[dict] = {"none": None, "text": "gone"}

    def process_async(self, envelope, collector, coordinator, callback):
        collector.send(OutgoingMessageEnvelope(OUT, envelope.message, key=envelope.key))
        callback.failure(self.errors[envelope.message["do"]])


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("none", "TypeError: callback.failure: expected an exception, got NoneType None"),
        ("text", "TypeError: callback.failure: expected an exception, got str 'gone'"),
    ],
)
def test_whatever_a_callback_fails_with_is_the_message_s_failure(tmp_path, order, reason):
    job = AsyncJob(tmp_path, task=FailingTask)
    job.send({"id": 0, "do": order})
    with pytest.raises(TaskFailed, match=rf"process of mem\.in\[0\]@0 failed: {reason}"):
        job.run()
    report = job.run(**{"task.error.process.policy": "skip"})
    assert report.metrics["errors"]["process.skipped"] == 1
    assert report.positions == {"mem.in[0]": 1}
    assert job.outputs() == []


def test_a_store_refuses_a_thread_that_is_not_the_task_s(tmp_path):
    job = AsyncJob(tmp_path, task=PoolTask)
    job.send({"id": 0, "do": "store"})
    with pytest.raises(TaskFailed, match="RuntimeError: store 'counts' is for the task's thread"):
        job.run()


def test_a_collector_refuses_outputs_once_its_message_is_done(tmp_path):
    job = AsyncJob(tmp_path, task=PoolTask)
    job.send({"id": 0, "do": "late"})
    job.run()
    (collector,) = job.task.calls
    with pytest.raises(RuntimeError, match=r"mem\.in\[0\]@0 is done"):
        collector.send(OutgoingMessageEnvelope(OUT, 1))


def test_a_message_that_never_ends_times_out_while_others_end(tmp_path, monkeypatch):
    clock = ManualClock()

    def order(self, message, collector, coordinator):
        clock.advance(0.02)
        assert message["id"] < 100, "it is long over time"

    monkeypatch.setattr(GatedTask, "order", order)
    job = AsyncJob(tmp_path, 2, **{"task.callback.timeout.ms": "1000"})
    job.send({"id": 0}, {"id": 1, "wait": "never"}, *[{"id": i} for i in range(2, 200)])
    container, _ = job.container(clock=clock)
    with pytest.raises(TaskFailed, match=r"process of mem\.in\[0\]@1 was not completed within 1000 ms"):
        container.run()
    assert 40 <= len(job.ended()) <= 60


def test_times_and_busy_share_count_messages_from_start_to_end(tmp_path, monkeypatch):
    clock, seen = ManualClock(), []

    def order(self, message, collector, coordinator):
        seen.append(self.metrics.snapshot())
        clock.advance(0.4)

    monkeypatch.setattr(GatedTask, "order", order)
    job = AsyncJob(tmp_path, 4, **{"task.async.key.order": "true"})
    job.send({"id": 0, "wait": "a"})
    job.send(*[{"id": i} for i in range(1, 27)], {"id": 27, "open": "a"}, key="one after another")
    job.container(clock=clock)[0].run()
    assert not seen[0]["recent"].keys() & {"busy", "p50", "p99"}, "it is not known yet"
    # After ten seconds two of four are in flight, and the first one has not ended.
    assert [seen[25]["recent"][name] for name in ("busy", "p50", "p99")] == pytest.approx([0.5] * 3)
    assert seen[25]["container"]["in-flight-s"] == pytest.approx(10)
