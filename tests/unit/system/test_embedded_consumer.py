"""How long a reader of an embedded log waits, on the memory system."""

import uuid

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.system.embedded.consumer import LogConsumer
from samzapy.system.embedded.producer import LogProducer
from samzapy.system.memory.clients import MemoryReader, MemoryWriter
from samzapy.system.memory.cluster import MemoryCluster
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("m", "s", 0)


class Impatient(MemoryReader):
    """Fails where the caller would wait."""

    def wait(self, timeout_s):
        raise AssertionError(f"it waits for {timeout_s} s")


@pytest.fixture
def cluster():
    made = MemoryCluster(uuid.uuid4().hex)
    made.create(StreamSpec("s", 1))
    return made


@pytest.fixture
def transaction(cluster):
    producer = LogProducer("m", MemoryWriter(cluster, "m"), ManualClock(), "id", 60_000)
    producer.init_transactions()
    producer.begin()
    producer.send([OutgoingRecord("s", b"k", b"v", 0)])
    producer.flush()
    return producer


def consumer(cluster, offset=0):
    made = LogConsumer("m", lambda: Impatient(cluster))
    made.register(SSP, offset)
    made.start()
    return made


def test_the_end_of_a_transaction_that_is_all_there_is_to_read_is_passed_without_a_wait(cluster, transaction):
    transaction.abort()
    reader = consumer(cluster)
    assert reader.poll(60.0, 10) == []
    assert reader.position(SSP) == cluster.offsets(SSP).upcoming
    transaction.begin()
    transaction.send([OutgoingRecord("s", b"k", b"v", 0)])
    transaction.commit()
    behind = consumer(cluster, cluster.offsets(SSP).upcoming - 1)
    assert behind.poll(60.0, 10) == []
    assert behind.position(SSP) == cluster.offsets(SSP).upcoming


@pytest.mark.parametrize("is_open", [True, False])
def test_where_there_is_nothing_to_pass_it_waits(cluster, transaction, is_open):
    if not is_open:
        transaction.commit()
    reader = consumer(cluster, cluster.offsets(SSP).oldest if is_open else cluster.offsets(SSP).upcoming)
    with pytest.raises(AssertionError, match="waits for 60"):
        reader.poll(60.0, 10)
