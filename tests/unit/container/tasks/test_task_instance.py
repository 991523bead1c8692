"""A task is complete when it is made: whatever it does not have does nothing."""

import pytest

from samzapy import IncomingMessageEnvelope, StreamTask, SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK
from samzapy.container.event_time.clock import EventClock
from samzapy.container.tasks.sinks import TaskSinks
from samzapy.container.tasks.synchronous import StrictProcessing
from samzapy.container.tasks.task_instance import TaskInstance, UserSide
from samzapy.errors import TaskFailed
from samzapy.metrics import Registry

SSP = SystemStreamPartition("m", "in", 0)


class StubStores:
    """No stores at all."""

    serdes = {}  # noqa: RUF012  # read only

    def over_budget(self):
        return False

    def metrics(self):
        return {}


class StubCollector:
    sent = 0
    waiting = False


class OneTask(StreamTask):
    def process(self, envelope, collector, coordinator):
        if envelope.message == "fail":
            raise ValueError("on purpose")
        if envelope.message == "commit":
            coordinator.commit()


def task():
    offsets = {SSP: 5}
    clock = EventClock(offsets, SYSTEM_CLOCK)
    return TaskInstance("Partition 0", UserSide(OneTask(), StubCollector()), StubStores(), offsets, clock)


def messages(*values):
    return [IncomingMessageEnvelope(SSP, 5 + n, None, value) for n, value in enumerate(values)]


def test_a_task_without_timers_sinks_and_a_state_of_its_own_commits_and_closes():
    made, metrics = task(), Registry()
    made.started({})
    made.touched = True
    made.take_checkpoint()
    checkpoint = made.checkpoint(made.committable(), 1, 2, atomic=True)
    made.sinks.commit(checkpoint.input_offsets)
    made.keep_checkpoint()
    made.committed(metrics)
    made.close()
    assert (dict(checkpoint.input_offsets), made.touched, made.over_budget()) == ({SSP: 5}, False, False)
    assert not made.timers.is_due()
    assert not made.sinks.registered


def test_processing_stops_at_a_request_and_moves_the_position():
    made = task()
    done = StrictProcessing(made, made.task.process).process(SSP, messages("a", "commit", "b"))
    assert (done, made.processed, made.offsets[SSP], made.requests.commit_asked) == (2, 2, 7, True)


def test_a_failure_names_the_message_and_leaves_the_position_before_the_run():
    made = task()
    with pytest.raises(TaskFailed, match=r"Partition 0: process of .*6.* failed: ValueError: on purpose"):
        StrictProcessing(made, made.task.process).process(SSP, messages("a", "fail"))
    assert made.offsets[SSP] == 5


class FailingSink:
    name = "rows"

    def __init__(self, calls):
        self.calls = calls

    def commit(self, offsets):
        raise ValueError("disk")

    def close(self):
        self.calls.append("close")
        raise ValueError("twice")


def test_a_sink_that_fails_fails_its_task_and_every_sink_is_closed():
    calls = []
    sinks = TaskSinks("Partition 0")
    sinks.add([FailingSink(calls), FailingSink(calls)])
    with pytest.raises(TaskFailed, match="Partition 0: commit of sink 'rows' failed: ValueError: disk"):
        sinks.commit({SSP: 1})
    with pytest.raises(TaskFailed, match="close of sink 'rows' failed"):
        sinks.close()
    assert calls == ["close", "close"]
