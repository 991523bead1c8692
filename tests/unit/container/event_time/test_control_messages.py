"""Watermarks, ends and drains between the stages of a pipeline."""

import asyncio
import json
import threading
from typing import ClassVar

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy import (
    CoroutineTask,
    Drain,
    DrainListenerTask,
    EndOfStream,
    EndOfStreamListenerTask,
    InitableTask,
    OutgoingMessageEnvelope,
    StreamTask,
    TimerTask,
    Watermark,
    WatermarkListenerTask,
)
from samzapy.api.collector import CONTROL_HEADER
from samzapy.api.system import OutgoingRecord
from samzapy.container.event_time.control_messages import Senders, SentControl
from samzapy.errors import ConfigError, SerdeError, TaskFailed

KINDS = {"w": b"watermark", "e": b"end-of-stream", "d": b"drain"}


class Listening(WatermarkListenerTask, EndOfStreamListenerTask, DrainListenerTask):
    """Notes what it is told, and what it processed when."""

    log: ClassVar[list] = []
    calls: ClassVar[list] = []
    crash_at: ClassVar[list] = []
    noted = threading.Event()

    def note(self, what):
        self.log.append(what)
        self.noted.set()
        if what in self.crash_at:
            raise ValueError("told to")

    def on_watermark(self, time_ms, collector, coordinator):
        self.note(("watermark", time_ms))
        collector.send(OutgoingMessageEnvelope(OUT, time_ms, key="watermark"))

    def on_end_of_stream(self, collector, coordinator):
        self.note("end")

    def on_drain(self, collector, coordinator):
        self.note("drain")


class ListeningTask(Listening, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.note(envelope.message)


class ListeningCoroutine(Listening, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        for _ in range(5):
            await asyncio.sleep(0)
        self.note(envelope.message)


class TimedListener(Listening, StreamTask, TimerTask, InitableTask):
    def init(self, context):
        self.timers = context.task.timers

    def process(self, envelope, collector, coordinator):
        self.note(envelope.message)
        self.timers.schedule(f"timer {envelope.message}", envelope.message)

    def on_timer(self, key, time_ms, collector, coordinator):
        self.note(key)


TASKS = [ListeningTask, ListeningCoroutine]
INTERMEDIATE = {"systems.mem.streams.in.samza.intermediate": "true"}


def job_of(folder, task=ListeningTask, partitions=1, **keys):
    Listening.log.clear()
    Listening.crash_at.clear()
    Listening.noted.clear()
    own = INTERMEDIATE | {"stores.counts.factory": "inmemory", "task.max.concurrency": "10"}
    return MemoryJob(folder, partitions=partitions, task=task, **own | keys)


def write(job, *what, partition=0, senders=2):
    """Append messages (numbers, which are their times too) and control messages: `A:w30`, `B:e`, `A:d`."""
    records = []
    for each in what:
        if isinstance(each, int):
            records.append(OutgoingRecord("in", b"k", b"%d" % each, partition, timestamp=each))
            continue
        sender, _, said = each.partition(":")
        value = {"sender": f"first-1/{sender}", "senders": senders}
        if said[1:]:
            value["time-ms"] = int(said[1:])
        header = [(CONTROL_HEADER, KINDS[said[0]])]
        records.append(OutgoingRecord("in", b"c", json.dumps(value).encode(), partition, None, header))
    job.producer.send(records)
    job.producer.flush()


@pytest.mark.parametrize("task", TASKS)
def test_the_watermark_is_the_least_of_all_senders_behind_its_messages(tmp_path, task):
    job = job_of(tmp_path, task)
    write(job, 10, "A:w100", 20, "B:w50", 30, "B:w70", 40, "A:w120", 50, "B:w130", "B:w90", 60)
    assert job.run().processed == 6, "control messages are none of the user's"
    assert Listening.log == [
        10, 20, ("watermark", 50), 30, ("watermark", 70), 40, 50, ("watermark", 120), 60, "end",
    ]  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("then", [("A:e", 20, "B:w30", "B:e", "end"), ("A:d", 20, "B:e", "drain")])
def test_the_end_comes_when_all_senders_have_ended_and_ends_an_endless_run(tmp_path, task, then):
    job = job_of(tmp_path, task)
    write(job, 10, *then[:-1])
    assert job.container(until_end=False)[0].run().phase == "done"
    assert Listening.log == [10, 20, *[("watermark", 30)] * ("B:w30" in then), then[-1]]


def test_a_control_message_looks_at_no_other_sender():
    class Unread(dict):
        items = values = keys = __iter__ = None

    senders = Senders({}, 0.0)
    senders.receive(SentControl("a-1/0", 50, Watermark(1)), 0.0)
    senders.known = Unread(senders.known)
    for message in (Watermark(2), Watermark(3), EndOfStream()):
        for task in range(50):
            senders.receive(SentControl(f"a-1/{task}", 50, message), 1.0)
    assert (senders.ended, senders.watermark) == (True, 3)


@pytest.mark.parametrize(
    "at",
    [("watermark", 70), "end", *(pytest.param(at, marks=pytest.mark.slow) for at in (10, ("watermark", 50), 20, 30))],
)
def test_a_crash_anywhere_repeats_no_committed_watermark_and_loses_no_end(tmp_path, at):
    job = job_of(tmp_path, **{"task.guarantee": "exactly-once", "task.commit.ms": "20000"})
    write(job, 10, "A:w100", "B:w50", 20)
    Listening.crash_at.append(at)
    crashed = 0
    for rest in ((), ("B:w70", 30, "A:e", "B:e")):
        write(job, *rest)
        try:
            job.container(until_end=not rest)[0].run()
        except TaskFailed:
            crashed += 1
            Listening.crash_at.clear()
            job.container(until_end=not rest)[0].run()
    assert crashed == 1
    assert [message for _, message in job.outputs()] == [50, 70, 100]
    assert Listening.log[-1] == "end"


def test_a_drained_job_that_is_started_again_goes_on(tmp_path):
    job = job_of(tmp_path)
    write(job, 10, "A:d", "B:d")
    job.container(until_end=False)[0].run()
    write(job, 20)
    job.run()
    assert Listening.log == [10, "drain", 20, "end"]


def test_event_timers_go_by_an_intermediate_streams_watermark(tmp_path):
    keys = {"stores.reminders.factory": "timers", "stores.reminders.changelog": "mem.reminders-changelog"}
    job = job_of(tmp_path, TimedListener, **keys)
    write(job, 30, 10, 50, "A:w20", 15, "A:w40", senders=1)
    write(job, 90, "A:w100", senders=1)
    job.run()
    assert Listening.log == [
        30, 10, 50, "timer 10", ("watermark", 20), 15, "timer 15", "timer 30", ("watermark", 40), 90,
        "timer 50", "timer 90", ("watermark", 100), "end",
    ]  # fmt: skip


def test_a_control_message_that_is_none_ends_the_attempt_and_is_named(tmp_path):
    job = job_of(tmp_path)
    job.producer.send([OutgoingRecord("in", b"k", b"{}", 0, None, [(CONTROL_HEADER, b"halt")])])
    job.producer.flush()
    with pytest.raises(SerdeError, match=r"mem.in\[0\]@0: not a control message .*expected watermark, end-of"):
        job.run()


class FirstStage(StreamTask, EndOfStreamListenerTask, DrainListenerTask):
    calls: ClassVar[list] = []
    wrong: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(OUT, envelope.message, key=envelope.key))
        collector.send_control(self.wrong[0] if self.wrong else OUT, Watermark(envelope.event_time))

    def on_end_of_stream(self, collector, coordinator):
        collector.send_control(OUT, EndOfStream())

    def on_drain(self, collector, coordinator):
        collector.send_control(OUT, Drain())


@pytest.mark.parametrize("guarantee", ["exactly-once", pytest.param("effectively-once", marks=pytest.mark.slow)])
def test_two_stages_hand_watermarks_and_the_end_on(tmp_path, guarantee):
    keys = {
        "systems.mem.streams.in.samza.intermediate": "false",
        "systems.mem.streams.out.samza.intermediate": "true",
        "task.guarantee": guarantee,
        "task.commit.ms": "20000",
    }
    stage = job_of(tmp_path / "first", FirstStage, partitions=2, **keys)
    write(stage, 10, 30, partition=0)
    write(stage, 20, 40, partition=1)
    stage.run()
    second = {
        "job.name": "second",
        "stores.counts.changelog": "mem.second-changelog",
        "task.class": f"{__name__}:ListeningTask",
        "task.inputs": "mem.out",
        "job.logged.store.base.dir": str(tmp_path / "second"),
        "job.systemstreampartition.grouper.factory": "single",
    }
    stage.container(until_end=False, **second)[0].run()
    messages = [each for each in Listening.log if isinstance(each, int)]
    marks = [each[1] for each in Listening.log if isinstance(each, tuple)]
    assert (sorted(messages), Listening.log[-1]) == ([10, 20, 30, 40], "end")
    assert (marks, marks[-1]) == (sorted(marks), 40)


def test_control_to_a_stream_that_is_not_intermediate_is_refused(tmp_path):
    job = job_of(tmp_path, FirstStage)
    write(job, 10)
    with pytest.raises(ConfigError, match=r"systems.mem.streams.out.samza.intermediate: must be true, here and in"):
        job.run()


def test_a_restart_after_the_end_ends_at_once_or_at_the_next_end(tmp_path):
    job = job_of(tmp_path)
    write(job, 10, "A:e", "B:e")
    for _ in range(2):
        job.container(until_end=False)[0].run()
    assert Listening.log == [10, "end", "end"]
    write(job, 20, "A:w30")
    Listening.noted.clear()
    thread = threading.Thread(target=job.container(until_end=False)[0].run)
    thread.start()
    assert Listening.noted.wait(30)
    write(job, "B:w40", "A:e", 30, "B:e")
    thread.join(20)
    assert not thread.is_alive()
    assert Listening.log[3:] == [20, ("watermark", 30), ("watermark", 40), 30, "end"]
