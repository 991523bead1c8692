"""Stores that streams fill, and that their tasks read."""

import threading
from typing import ClassVar

import pytest
from jobs.memory_job import Calls, MemoryJob

from samzapy import InitableTask, SideInputsProcessor, StreamTask, SystemStreamPartition, WindowableTask
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.errors import StoreCorrupted, TaskFailed
from samzapy.failpoints import FailPointReached, arm


class LatestRates(SideInputsProcessor):
    """The last rate of each currency."""

    def process(self, message, store):
        return [(message.key, message.message)]


class SummedRates(SideInputsProcessor):
    """The sum by currency, in which a rate that is processed twice shows."""

    weight = 1

    def init(self, job):
        self.weight = int(job.config.get("rates.weight", "1"))

    def process(self, message, store):
        return [(message.key, (store.get(message.key) or 0) + self.weight * message.message)]


class Failing(SideInputsProcessor):
    """Cannot make anything of its messages, or not read its store."""

    def process(self, message, store):
        raise KeyError("rate") if message.key == "USD" else StoreCorrupted("a block")


class Unmade(LatestRates):
    def __init__(self):
        raise SystemExit(0)


class RateTask(StreamTask, InitableTask, WindowableTask):
    """Notes what the store has for each message's key; its window ends the job once the store is as `wanted`."""

    calls = Calls()
    wanted: ClassVar = None

    def init(self, context):
        self.rates = context.get_store("rates")
        self.calls.append(("init", context.task.task_name, rows(self.rates)))

    def process(self, envelope, collector, coordinator):
        self.calls.append(("process", envelope.key, self.rates.get(envelope.key)))
        if envelope.message.get("write"):
            self.rates.put("EUR", 5)

    def window(self, collector, coordinator):
        self.calls.append(("window",))
        if self.wanted is not None and rows(self.rates) == self.wanted:
            coordinator.shutdown()


def rows(store):
    with store.all() as entries:
        return dict(entries)


@pytest.fixture(autouse=True)
def as_before():
    RateTask.wanted = None


#: What is put is written after each batch.
SPILLING = {"stores.rates.uncommitted.max.bytes": "1", "stores.rates.object.cache.size": "0"}


class RateJob(MemoryJob):
    """A job whose store `rates` is filled from the stream `rates`."""

    def __init__(self, folder, processor=LatestRates, task=RateTask, partitions=1, rates_partitions=None, **keys):
        super().__init__(
            folder / "logged",
            partitions,
            task,
            **{
                "job.non-logged.store.base.dir": str(folder / "state"),
                "stores.counts.factory": "inmemory",
                "stores.rates.factory": "rocksdb",
                "stores.rates.key.serde": "string",
                "stores.rates.msg.serde": "json",
                "stores.rates.side.inputs": "mem.rates",
                "stores.rates.side.inputs.processor.factory": f"{__name__}:{processor.__name__}",
            }
            | keys,
        )
        count = rates_partitions or partitions
        self.admin.create(StreamSpec("rates", count, {"cleanup.policy": "compact"}))

    def rate(self, *rates, partition=0):
        """Append (currency, rate) pairs, None for a tombstone."""
        self.producer.send(
            [
                OutgoingRecord("rates", key.encode(), None if rate is None else str(rate).encode(), partition)
                for key, rate in rates
            ]
        )
        self.producer.flush()

    def seen(self, what="process"):
        return [call[1:] for call in self.task.calls if call[0] == what]


def source(report, store="Partition 0/rates"):
    return report.restored[store][0], report.restored[store][2]


def test_a_task_starts_with_everything_the_streams_held_at_that_time(tmp_path):
    job = RateJob(tmp_path)
    job.rate(("USD", 1), ("GBP", 3), ("USD", 2), ("CHF", 4), ("CHF", None))
    job.send((0, "USD", {}), (0, "CHF", {}))
    report = job.run()
    assert job.seen("init") == [("Partition 0", {"USD": 2, "GBP": 3})]
    assert job.seen() == [("USD", 2), ("CHF", None)]
    assert source(report) == (5, "side inputs")


def test_the_store_follows_its_stream_while_the_task_runs(tmp_path):
    job = RateJob(tmp_path, **{"task.window.ms": "1"})
    job.rate(("USD", 1))
    RateTask.wanted = {"USD": 7, "GBP": 8}
    container, _ = job.container(until_end=False)

    def later():
        job.task.calls.wait_for(("window",), 1)
        job.rate(("USD", 7), ("GBP", 8))

    feeding = threading.Thread(target=later)
    feeding.start()
    container.run()
    feeding.join(30)
    assert job.seen("init") == [("Partition 0", {"USD": 1})]


def test_a_store_on_disk_goes_on_where_it_was(tmp_path):
    job = RateJob(tmp_path, SummedRates)
    job.rate(("USD", 1), ("USD", 10))
    job.run()
    job.rate(("USD", 100))
    assert source(job.run()) == (1, "local store + side inputs")
    assert job.seen("init")[-1] == ("Partition 0", {"USD": 111})
    assert source(job.run()) == (0, "local store")


@pytest.mark.parametrize("point", ["fill.batch", "fill.keep"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_crash_while_the_store_is_filled_processes_no_message_twice(tmp_path, point, nth):
    job = RateJob(tmp_path, SummedRates, **SPILLING)
    job.admin.create(StreamSpec("more", 1))
    keys = {"stores.rates.side.inputs": "mem.rates, mem.more"}
    for stream in ("rates", "more"):
        job.send(*[(0, f"c{n % 7}", n) for n in range(100)], stream=stream)
    arm(point, nth)
    with pytest.raises(FailPointReached):
        job.run(**keys)
    job.run(**keys)
    expected = {f"c{r}": 2 * sum(n for n in range(100) if n % 7 == r) for r in range(7)}
    assert job.seen("init")[-1] == ("Partition 0", expected)


def test_a_crash_while_the_store_follows_processes_no_message_twice(tmp_path):
    job = RateJob(tmp_path, SummedRates, **SPILLING)
    job.rate(("USD", 1))
    container, _ = job.container(until_end=False)
    arm("start.7", action=lambda _: (job.rate(("USD", 10)), arm("fill.keep"))[0])
    with pytest.raises(FailPointReached):
        container.run()
    job.rate(("USD", 100))
    job.run()
    assert job.seen("init")[-1] == ("Partition 0", {"USD": 111})


@pytest.mark.parametrize(
    ("processor", "key", "error", "text"),
    [
        (Unmade, "USD", TaskFailed, r"^Partition 0/rates: Unmade\(\) failed: SystemExit: 0 .*test_side_inputs"),
        (Failing, "USD", TaskFailed, r"^Partition 0/rates: processor at mem\.rates\[0\]@0: KeyError"),
        (Failing, "GBP", StoreCorrupted, "^a block$"),
    ],
)
def test_a_processor_that_fails_ends_the_attempt_at_its_message(tmp_path, processor, key, error, text):
    job = RateJob(tmp_path, processor)
    job.rate((key, 1))
    with pytest.raises(error, match=text):
        job.run()


def test_another_processor_or_other_streams_start_from_nothing(tmp_path):
    job = RateJob(tmp_path, SummedRates)
    job.rate(("USD", 1), ("USD", 10))
    job.run()
    latest = {"stores.rates.side.inputs.processor.factory": f"{__name__}:LatestRates"}
    assert source(job.run(**latest)) == (2, "side inputs")
    assert job.seen("init")[-1] == ("Partition 0", {"USD": 10})
    job.admin.delete("rates")
    job.admin.create(StreamSpec("rates", 1))
    job.rate(("GBP", 5))
    job.run(**latest)
    assert job.seen("init")[-1] == ("Partition 0", {"GBP": 5})


def lose(job):
    job.rate(("EUR", 1), ("CHF", 3))
    job.admin.delete_records(SystemStreamPartition("mem", "rates", 0), 2)


def create_again(job):
    job.admin.delete("rates")
    job.admin.create(StreamSpec("rates", 1))
    job.rate(("CHF", 3))


@pytest.mark.parametrize(("point", "change"), [("start.7", lose), ("fill.batch", create_again)])
def test_a_stream_that_changes_under_its_reader_is_read_anew(tmp_path, point, change):
    job = RateJob(tmp_path, **{"task.window.ms": "1", "stores.rates.side.inputs": "mem.more, mem.rates"})
    job.admin.create(StreamSpec("more", 1))
    job.rate(("USD", 1))
    job.send((0, "more", 1), stream="more")
    RateTask.wanted = {"CHF": 3, "more": 1}
    container, _ = job.container(until_end=False)
    arm(point, action=lambda _: change(job))
    container.run()
    assert job.seen("init")[-1] == ("Partition 0", RateTask.wanted)


def test_a_write_to_a_store_that_streams_fill_fails_only_its_message(tmp_path):
    job = RateJob(tmp_path, **{"task.error.process.policy": "skip"})
    job.rate(("EUR", 10))
    job.send((0, "EUR", {"id": 1, "write": True}), (0, "EUR", {"id": 2}))
    assert job.run().metrics["errors"]["process.skipped"] == 1
    assert job.task.calls[-1] == ("process", "EUR", 10)
