"""A batch task does what the same task does message by message: for every guarantee, policy and crash."""

import pytest
from ledgers import JOB, BatchLedger, Ledger, ids_by_key, post, state

from samzapy import SystemStreamPartition
from samzapy.api.envelope import OutputId
from samzapy.api.system import OutgoingRecord
from samzapy.errors import TaskFailed
from samzapy.system.memory import MemoryCluster, MemorySystemFactory
from samzapy.testing import TaskTestDriver

GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
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
        return ids_by_key(driver.committed("out")), state(driver), list(map(_about, found))


def _about(letter):
    """What a letter says, but for the time, the lines of code, and the id of its input's stream."""
    apart = {"samzapy-error-time-ms", "samzapy-error-traceback", "samzapy-id"}
    about = {name: value for name, value in letter.headers if name not in apart}
    return about, letter.message["id"], OutputId.of(letter.headers) and OutputId.of(letter.headers)[1:]


@pytest.mark.parametrize("case", POLICIES)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_policy_does_to_a_batch_what_it_does_to_its_messages(guarantee, case):
    keys, orders = POLICIES[case]
    keys = keys | {"task.guarantee": guarantee}
    assert run(BatchLedger, keys, orders) == run(Ledger, keys, orders)


@pytest.mark.parametrize("size", ["1", "4", "0"])
def test_the_size_of_batches_changes_nothing(size):
    keys = {"task.batch.max.messages": size, "task.error.process.policy": "skip"}
    orders = {4: "fail", 11: "fail"}
    assert run(BatchLedger, keys, orders) == run(Ledger, keys, orders)


STEPS = [f"commit.{n}" for n in ("1", "2", "3a", "3", "4", "5a", "5", "6", "7")]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_crash_in_a_commit_leaves_what_the_guarantee_says(guarantee, step):
    """The messages come again in other batches."""
    with TaskTestDriver(BatchLedger, JOB | {"task.guarantee": guarantee}, partitions=2) as driver:
        post(driver, range(10))
        driver.run()
        driver.commit()
        for first in (10, 14, 18):
            post(driver, range(first, min(first + 4, 21)))
            driver.run()
        assert max(driver.task(0).sizes) > 1
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


def test_a_failure_without_a_policy_names_the_message_and_leaves_nothing():
    with TaskTestDriver(BatchLedger, JOB) as driver:
        for i in range(6):
            driver.post("in", {"id": i} | ({"do": "fail"} if i == 3 else {}), "k")
        with pytest.raises(TaskFailed, match=r"process_batch of sys\.in\[0\]@3 failed: ValueError: told to"):
            driver.run()
        assert not driver.running
        assert driver.outputs("out") == []


def test_a_message_that_does_not_decode_meets_its_policy_between_batches():
    keys = {"task.error.deserialize.policy": "dead-letter", "task.dead.letter.stream": "sys.letters"}
    assert _undecoded(BatchLedger, keys) == _undecoded(Ledger, keys)


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
