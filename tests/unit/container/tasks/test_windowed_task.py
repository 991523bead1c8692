"""A windowed task in a container: its timer, the end of its inputs, messages that fail, crashes at any commit step."""

import pytest
from jobs.memory_job import OUT, MemoryJob

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.operators.windows import Count, Tumbling, WindowedAggregation, WindowedBatchTask, WindowedTask
from samzapy.runner.prepare import prepare


class HourlyTask(WindowedTask):
    """Counts by key and stretch of 10 ms; a message tells its time, and may want to fail or to be committed."""

    def aggregation(self, context):
        return WindowedAggregation(Tumbling(10), Count(), OUT)

    def process(self, envelope, collector, coordinator):
        self.windows.add(envelope, envelope.key, 1, collector, time_ms=envelope.message["at"])
        if envelope.message.get("fail"):
            raise ValueError("told to")
        if envelope.message.get("commit"):
            coordinator.commit()


class HourlyBatchTask(WindowedBatchTask):
    """The same, by batches."""

    def aggregation(self, context):
        return WindowedAggregation(Tumbling(10), Count(), OUT)

    def process_batch(self, batch, collector, coordinator):
        self.windows.add_all(batch, collector, time=lambda message: message["at"])
        if any(message.get("fail") for message in batch.messages):
            raise ValueError("told to")


class PatientTask(HourlyTask):
    """Leaves its windows open at the end."""

    close_at_end = False


WINDOWS = {
    "task.window.ms": "1",
    "stores.windows.factory": "rocksdb",
    "stores.windows.key.serde": "string",
    "stores.windows.msg.serde": "long",
    "stores.windows.changelog": "mem.windows-changelog",
}


def windowed(folder, task=HourlyTask, partitions=1, **keys):
    return MemoryJob(folder, partitions, task, **WINDOWS | keys)


def results(job):
    return [(key, message["start"], message["value"]) for key, message in job.outputs()]


@pytest.mark.parametrize("task", [HourlyTask, HourlyBatchTask])
def test_every_window_is_closed_at_the_end_of_the_inputs_and_stays_closed(tmp_path, task):
    job = windowed(tmp_path, task)
    job.send((0, "a", {"at": 1}), (0, "a", {"at": 2}), (0, "b", {"at": 12}))
    job.run()
    assert results(job) == [("a", 0, 2), ("b", 10, 1)]
    job.send((0, "a", {"at": 19}), (0, "a", {"at": 20}))
    report = job.run()
    assert results(job)[2:] == [("a", 20, 1)]
    assert report.metrics["windows"]["windows.late"] == 1


def test_windows_that_may_stay_open_go_on_in_the_next_run(tmp_path):
    job = windowed(tmp_path, PatientTask)
    job.send((0, "a", {"at": 1}), (0, "a", {"at": 12}))
    job.run()
    assert results(job) == [("a", 0, 1)]
    job.send((0, "a", {"at": 19}), (0, "a", {"at": 20}))
    job.run()
    assert results(job) == [("a", 0, 1), ("a", 10, 2)]


@pytest.mark.parametrize("value", [None, "0", "-1"])
def test_a_job_that_never_calls_window_is_refused(value):
    keys = {"job.name": "hourly", "task.inputs": "mem.in", "systems.mem.samza.factory": "local"}
    keys |= WINDOWS | {"task.window.ms": value, "task.class": f"{__name__}:HourlyTask"}
    with pytest.raises(
        ConfigError, match=r"^task\.window\.ms: must be > 0, e\.g\. 1000: HourlyTask follows event time"
    ):
        prepare(load_job({key: text for key, text in keys.items() if text is not None}))
