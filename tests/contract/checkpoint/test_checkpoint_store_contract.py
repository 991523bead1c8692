"""One contract for the topic of tasks' own states, on any system."""

import uuid
from types import SimpleNamespace

import pytest
from system_under_test import SystemUnderTest
from systems import SYSTEMS

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint.states import PART_BYTES, TopicCheckpointStore
from samzapy.errors import EnvironmentFailure, RestoreError

LARGE = bytes(range(256)) * (5 * PART_BYTES // 512)


@pytest.fixture
def stream():
    return f"states-{uuid.uuid4().hex[:8]}"


def topic_store(system, stream, task):
    spec = StreamSpec(stream, 3, {"cleanup.policy": "compact"})
    producer = system.producer()
    clients = SimpleNamespace(
        admin=lambda _: system.admin,
        consumer=lambda _: system._kept(system.factory.consumer(system.settings, "states")),
        producer=lambda _: producer,
    )
    return TopicCheckpointStore(system.name, spec, task, clients, job=("views", "1"))


SLOW_KAFKA = pytest.param(SYSTEMS["kafka"].values[0], id="kafka", marks=[pytest.mark.kafka, pytest.mark.slow])


@pytest.fixture(params=[SYSTEMS["memory"], SYSTEMS["local"], SLOW_KAFKA])
def new_store(request, stream):
    """Makes stores of a task, as one attempt after the other would."""
    system = SystemUnderTest(request.param(request))
    yield lambda task="Partition 0": topic_store(system, stream, task)
    system.close()


def test_a_successor_finds_what_was_persisted_of_its_task(new_store):
    store = new_store()
    assert store.times() == []
    store.persist(20, b"two")
    store.persist(10, b"one")
    store.persist(30, LARGE)
    new_store("Partition 1").persist(10, b"another's")
    successor = new_store()
    assert successor.times() == [10, 20, 30]
    assert [successor.recover(time) for time in (10, 20, 30)] == [b"one", b"two", LARGE]


def test_one_time_may_be_persisted_again_and_the_newest_counts(new_store):
    store = new_store()
    store.persist(10, LARGE)
    store.persist(10, b"")
    assert new_store().recover(10) == b""
    again = new_store()
    again.times()
    again.persist(10, b"third")
    assert (new_store().times(), new_store().recover(10)) == ([10], b"third")


def test_what_was_removed_is_gone(new_store):
    store = new_store()
    for time in (10, 20, 30):
        store.persist(time, LARGE)
    store.remove([10, 20, 25])
    # A removal may wait for the next write.
    store.persist(40, b"four")
    successor = new_store()
    assert successor.times() == [30, 40]
    with pytest.raises(RestoreError, match="there is no such state"):
        successor.recover(20)


@pytest.fixture
def memory(request):
    system = SystemUnderTest(SYSTEMS["memory"].values[0](request))
    yield system
    system.close()


def test_a_write_that_was_cut_short_leaves_the_one_before(memory, stream):
    topic_store(memory, stream, "Partition 0").persist(10, b"whole")
    ssp = topic_store(memory, stream, "Partition 0")._open()
    key = b'{"task": "Partition 0", "time": %d, "part": [%d, 0]}'
    producer = memory.producer()
    producer.send([OutgoingRecord(stream, key % (time, 5), b"torn", ssp.partition) for time in (10, 20)])
    producer.flush()
    store = topic_store(memory, stream, "Partition 0")
    assert (store.times(), store.recover(10)) == ([10], b"whole")
    store.persist(30, b"next")
    # What was torn is given tombstones.
    assert topic_store(memory, stream, "Partition 0").times() == [10, 30]
    assert set(topic_store(memory, stream, "Partition 0")._parts) <= {10, 30}


def test_a_topic_that_forgets_is_refused(memory, stream):
    memory.admin.create(StreamSpec(stream, 1, {"cleanup.policy": "delete"}))
    with pytest.raises(EnvironmentFailure, match="must be compact"):
        topic_store(memory, stream, "Partition 0").times()
