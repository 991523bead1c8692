"""A key or value of a store that does not serialize: the error names the input it came from, as exactly as is known."""

import math

import pytest
from jobs.memory_job import MemoryJob

from samzapy import BatchTask, CoroutineTask, InitableTask, StreamTask
from samzapy.errors import SerdeError, StoreClosed, StoreRefused
from samzapy.serializers import StringSerde
from samzapy.storage.readback import FIRST
from samzapy.testing import TaskTestDriver


class PuttingTask(StreamTask, InitableTask):
    """Puts each message as it is, and reads a range where one says so."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, envelope.message)
        if envelope.message == "read":
            list(self.counts.all())
        if envelope.message == "commit":
            coordinator.commit()
        if envelope.message == "close":
            self.counts.close()


class PuttingCoroutine(CoroutineTask, InitableTask):
    async def init(self, context):
        self.counts = context.get_store("counts")

    async def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, envelope.message)


TAKES = (
    "store 'counts': value of key 'a': string serde takes a str, got dict; "
    "convert it, or change stores.counts.msg.serde"
)
#: The lines of the calls of `put` above.
PUT, PUT_LATER = (
    f"test_unserializable_entries.py:{task.process.__code__.co_firstlineno + 1}"
    for task in (PuttingTask, PuttingCoroutine)
)
UNCACHED = {"stores.counts.object.cache.size": "0"}


def failure(tmp_path, sent, task=PuttingTask, **keys):
    job = MemoryJob(tmp_path / "state", partitions=2, task=task, **{"stores.counts.msg.serde": "string"} | keys)
    job.send(*sent)
    with pytest.raises(SerdeError) as caught:
        job.run()
    return str(caught.value)


BAD = (0, "a", {"x": 1})


def good(count, partition=0):
    return [(partition, "b", "text")] * count


def test_at_a_commit_the_error_names_the_inputs_since_the_last_one(tmp_path):
    sent = [*good(FIRST), (0, "b", "commit"), BAD, *good(4), *good(1, partition=1)]
    assert failure(tmp_path, sent) == f"{TAKES} (put since the last commit, at mem.in[0]@17 to 21)"


def test_without_a_cache_every_put_names_its_input_and_line(tmp_path):
    said = failure(tmp_path, [*good(FIRST), BAD, *good(2)], **UNCACHED)
    assert said == f"{TAKES} (while processing mem.in[0]@16, {PUT})"


@pytest.mark.parametrize(("task", "line"), [(PuttingTask, PUT), (PuttingCoroutine, PUT_LATER)])
def test_the_first_puts_of_a_store_name_their_input_and_line(tmp_path, task, line):
    sent = [*good(FIRST - 1), BAD, *good(1)]
    assert failure(tmp_path, sent, task) == f"{TAKES} (while processing mem.in[0]@15, {line})"


CLOSE = (0, "a", "close")
REFUSED = [
    ([(0, "a", None)], StoreRefused, f"not be None; delete the key instead (while processing mem.in[0]@0, {PUT})"),
    ([CLOSE, *good(1)], StoreClosed, f"store 'counts' is closed (while processing mem.in[0]@1, {PUT})"),
    ([CLOSE], StoreClosed, "store 'counts' is closed (in a commit)"),
]


@pytest.mark.parametrize(("sent", "error", "said"), REFUSED)
def test_a_refusal_of_a_store_names_input_and_line(tmp_path, sent, error, said):
    with pytest.raises(error) as caught:
        failure(tmp_path, sent)
    assert str(caught.value).endswith(said)


class PuttingBatches(BatchTask, InitableTask):
    def init(self, context):
        self.counts = context.get_store("counts")

    def process_batch(self, batch, collector, coordinator):
        self.counts.put_all(zip(batch.keys, batch.messages, strict=True))


class Asking(PuttingTask):
    """Looks each message up, as a key."""

    def process(self, envelope, collector, coordinator):
        self.counts.get(envelope.message)
        self.counts.put(envelope.message, "seen")


class Unreadable(StringSerde):
    def from_bytes(self, data):
        raise ValueError("broken")


SKIPPING = {
    "task.error.process.policy": "skip",
    "task.inputs": "sys.in",
    "systems.sys.default.stream.samza.key.serde": "msgpack",
    "systems.sys.default.stream.samza.msg.serde": "msgpack",
    "stores.counts.factory": "inmemory",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "json",
}


@pytest.mark.parametrize("cache", [{}, UNCACHED])
@pytest.mark.parametrize("task", [PuttingTask, PuttingCoroutine, PuttingBatches])
def test_a_value_that_does_not_serialize_meets_the_policy_of_its_message(task, cache):
    with TaskTestDriver(task, SKIPPING | cache) as driver:
        driver.send_batch("in", ["a", "b", "c", 4, "e"], [1, math.nan, b"no JSON", 4, 5], partition=0)
        driver.commit()
        assert dict(driver.store("counts").all()) == {"a": 1, "e": 5}


def test_a_key_that_does_not_serialize_meets_the_policy_of_its_message():
    with TaskTestDriver(Asking, SKIPPING) as driver:
        driver.send_batch("in", None, ["a", 5, None, "b"])
        assert dict(driver.store("counts").all()) == {"a": "seen", "b": "seen"}


def test_an_entry_that_does_not_decode_is_not_about_the_message_that_asks():
    keys = {"stores.counts.msg.serde": "corrupt", "serializers.registry.corrupt.class": f"{__name__}:Unreadable"}
    with (
        TaskTestDriver(Asking, SKIPPING | keys) as driver,
        pytest.raises(SerdeError, match=r"store 'counts': value of key 'a': .*broken"),
    ):
        driver.send_batch("in", None, ["a", "a"])


def test_an_asynchronous_task_names_where_its_last_commit_was(tmp_path):
    said = failure(tmp_path, [*good(FIRST), BAD], PuttingCoroutine)
    assert said == f"{TAKES} (put since the last commit, at mem.in[0]@0 or later)"
