import asyncio
import logging
import threading
from typing import ClassVar

import pytest

from samzapy import CoroutineTask, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.container.outputs.collector import BufferingCollector, Outbox
from samzapy.container.supervision.logs import PlaceFilter, activity_of, stack_as_text, stack_of, waited_for
from tests.jobs.memory_job import MemoryJob

LOG = logging.getLogger("tests.activity")


class Logging(StreamTask, InitableTask):
    def init(self, context):
        LOG.info("init")

    def process(self, envelope, collector, coordinator):
        LOG.info("process")


class LoggingCoroutine(CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        LOG.info("process")


class Asking(StreamTask):
    """Has another thread look at the stack of this one."""

    found: ClassVar[list] = []

    def process(self, envelope, collector, coordinator):
        frame = stack_of(threading.get_ident())
        self.found.append((activity_of(frame), stack_as_text(frame)))


@pytest.fixture
def places():
    """The places of the lines that a task logs."""
    found: ClassVar[list] = []

    class Keep(logging.Handler):
        def emit(self, record):
            found.append((record.samzapy_container, record.samzapy_task, record.samzapy_position))

    handler = Keep()
    handler.addFilter(PlaceFilter("7"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield found
    LOG.removeHandler(handler)


def run(tmp_path, task, **keys):
    job = MemoryJob(tmp_path, partitions=1, task=task)
    job.send(*((0, "a", {"id": n}) for n in range(3)))
    job.run(**keys)


@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_line_of_a_task_has_its_task_and_message(tmp_path, places, policy):
    run(tmp_path, Logging, **{"task.error.process.policy": policy})
    at = [("7", "Partition 0", f"mem.in[0]@{n}") for n in range(3)]
    assert places == [("7", "Partition 0", ""), *at]


def test_a_line_of_a_coroutine_has_its_own_message(tmp_path, places):
    run(tmp_path, LoggingCoroutine)
    assert places == [("7", "Partition 0", f"mem.in[0]@{n}") for n in range(3)]


def test_a_thread_in_process_is_seen_with_its_message_and_its_stack(tmp_path):
    Asking.found.clear()
    run(tmp_path, Asking)
    activity, stack = Asking.found[1]
    assert (activity.doing, activity.of_user) == ("in process of mem.in[0]@1", True)
    assert stack.splitlines()[0].strip().startswith("File ")
    assert "in process" in stack.splitlines()[0]
    assert "test_activity.py" in stack
    assert "run_loop.py" not in stack


def test_a_thread_that_waits_for_room_for_its_outputs_is_seen():
    found = []

    class Full:
        def send(self, records):
            found.append(activity_of(stack_of(threading.get_ident())))

    collector = BufferingCollector(lambda _: (None, None), lambda _: Full(), None, Outbox())
    collector.send(OutgoingMessageEnvelope(SystemStream("a", "b"), b"v"))
    collector.hand_over()
    assert [(each.doing, each.of_user) for each in found] == [("waits for room in the queue of its outputs", False)]


class Waiting(CoroutineTask):
    """Lets the event loop wait at its second message, and has another thread look at the loop's thread meanwhile."""

    found: ClassVar[list] = []

    async def process(self, envelope, collector, coordinator):
        if envelope.offset == 1:
            await asyncio.get_running_loop().run_in_executor(None, self.look, threading.get_ident())

    def look(self, thread):
        while not self.found:
            frame = stack_of(thread)
            if "advance" in stack_as_text(frame):
                self.found.append((activity_of(frame), waited_for(frame)))


def test_a_coroutine_that_waits_is_seen_with_its_message(tmp_path):
    Waiting.found.clear()
    run(tmp_path, Waiting)
    ((activity, waited),) = Waiting.found
    assert activity is None
    assert (waited.doing, waited.task) == ("in process of mem.in[0]@1", "Partition 0")
    assert waited_for(None) is None
