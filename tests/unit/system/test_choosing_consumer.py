"""What a chooser keeps between the systems' consumers and the reader."""

from uuid import uuid4

import pytest
from rigs.store_rig import Hashed

from samzapy import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.choosers import Bootstrap, ChoosingConsumer, Portion, RoundRobin, Tiered
from samzapy.system.local.factory import MemorySystemFactory
from samzapy.testing import ManualClock

URGENT, SLOW = (SystemStreamPartition("mem", stream, 0) for stream in ("urgent", "slow"))


class Rig:
    """A choosing consumer over the streams `urgent` and `slow` of a cluster of its own."""

    def __init__(self, most=1_000, most_waiting=100, bootstrap=None, priorities=None):
        settings = SystemSettings("mem", "memory", properties={"cluster": str(uuid4())})
        factory = MemorySystemFactory()
        admin = factory.admin(settings, "test")
        for stream in ("urgent", "slow"):
            admin.create(StreamSpec(stream, 100))
        self.producer = factory.producer(settings, "test")
        self.inner = factory.consumer(settings, "test")
        self.consumer = ChoosingConsumer(
            {"mem": self.inner},
            Tiered([RoundRobin(), RoundRobin()]),
            priorities or {URGENT: 1, SLOW: 0},
            Portion(ManualClock(), most),
            most_waiting=most_waiting,
            max_idle_s=0.01,
            bootstrap=bootstrap,
        )

    def send(self, stream, count, partition=0):
        self.producer.send([OutgoingRecord(stream, b"k", b"v", partition) for _ in range(count)])
        self.producer.flush()

    def poll(self, most=1_000):
        return [(batch.ssp, batch.offsets[0], batch.offsets[-1]) for batch in self.consumer.poll(0.0, most)]


@pytest.fixture
def rig():
    made = Rig(most=10)
    made.consumer.start({URGENT: 0, SLOW: 0})
    return made


def test_what_is_read_ahead_of_a_partition_that_must_wait_is_bounded_and_then_goes_on(rig):
    rig.send("slow", 5_000)
    rig.send("urgent", 50)
    for _ in range(5):
        assert [ssp for ssp, _, _ in rig.poll(60)] == [URGENT]
    assert rig.inner.position(SLOW) <= 160, "at most what may wait, and one poll"
    drained = [offset for _ in range(600) for _, first, last in rig.poll(60) for offset in range(first, last + 1)]
    assert drained == list(range(5_000))


def test_the_position_is_that_of_what_was_handed_out_and_not_of_what_was_read(rig):
    rig.send("slow", 30)
    assert rig.poll() == [(SLOW, 0, 9)]
    assert (rig.consumer.position(SLOW), rig.inner.position(SLOW)) == (10, 30)
    for _ in range(2):
        rig.poll()
    assert rig.consumer.position(SLOW) == 30


def test_a_paused_partition_keeps_what_waits_until_it_is_resumed(rig):
    rig.send("slow", 30)
    rig.poll()
    rig.consumer.pause([SLOW])
    assert rig.poll() == []
    rig.consumer.pause([])
    assert rig.poll() == [(SLOW, 10, 19)]


def test_a_choice_looks_at_few_of_the_partitions_that_wait():
    ssps = Hashed.many("slow")
    rig = Rig(priorities={ssp: ssp.partition % 2 for ssp in ssps})
    for ssp in ssps:
        rig.send("slow", 1, ssp.partition)
    rig.consumer.start(dict.fromkeys(ssps, 0))
    assert [ssp for ssp, *_ in rig.poll() + rig.poll()] == ssps[1::2] + ssps[::2]
    assert Hashed.count < 50 * len(ssps)


def test_nothing_but_the_bootstrap_partition_is_fetched_until_what_was_handed_out_is_processed():
    processed = {URGENT: 0}
    left = []
    rig = Rig(bootstrap=Bootstrap({URGENT: 5}, lambda ssp: processed[ssp], left.append))
    rig.send("slow", 5)
    rig.send("urgent", 5)
    rig.consumer.start({URGENT: 0, SLOW: 0})
    assert rig.poll() == [(URGENT, 0, 4)]
    assert rig.poll() == []
    assert rig.inner.position(SLOW) == 0
    processed[URGENT] = 5
    assert rig.poll() == [(SLOW, 0, 4)]
    assert left == [5, 5, 0, 0]


def test_partitions_that_were_read_ahead_or_are_shut_behind_a_bootstrap_are_held_back():
    processed = {URGENT: 0}
    rig = Rig(bootstrap=Bootstrap({URGENT: 5}, lambda ssp: processed[ssp], lambda left: None))
    rig.send("urgent", 5)
    rig.consumer.start({URGENT: 0, SLOW: 0})
    assert rig.consumer.held_back() == {SLOW}
    rig.poll()
    processed[URGENT] = 5
    rig.poll()
    assert rig.consumer.held_back() == set()
    rig.send("slow", 100)
    assert len(rig.poll()) == 1
    assert rig.consumer.held_back() == {SLOW}
    rig.poll()
    assert rig.consumer.held_back() == set()


def test_a_bootstrap_that_makes_no_progress_is_a_warning_once_a_minute(caplog):
    clock = ManualClock()
    rig = Rig(bootstrap=Bootstrap({URGENT: 5}, lambda ssp: 5, lambda left: None, clock=clock))
    rig.send("urgent", 3)
    rig.consumer.start({URGENT: 0, SLOW: 0})
    said = []
    for pause_s in (0, 59, 61, 59, 1, 1):
        clock.advance(pause_s)
        rig.poll()
        said.append(sum("made no progress" in line for line in caplog.messages))
    assert said == [0, 0, 1, 1, 2, 2]
    assert "mem.urgent[0] at 3 of 5" in caplog.text


def test_lagging_bootstrap_streams_wait_for_each_others_first_message():
    rig = Rig(bootstrap=Bootstrap({URGENT: 3, SLOW: 5}, lambda ssp: 5, lambda left: None))
    rig.send("urgent", 3)
    rig.send("slow", 5)
    rig.consumer.start({URGENT: 0, SLOW: 0})
    # A poll fetches three records: all of one stream, then some of the other.
    assert rig.poll(3) == []
    assert min(rig.inner.position(URGENT), rig.inner.position(SLOW)) == 0
    found = [each for _ in range(3) for each in rig.poll(3)]
    assert next(ssp for ssp, *_ in found) == URGENT
    assert {ssp: last for ssp, _, last in found} == {URGENT: 2, SLOW: 4}


def test_a_bootstrap_stream_that_is_held_back_keeps_no_other_waiting():
    rig = Rig(bootstrap=Bootstrap({URGENT: 5, SLOW: 4}, lambda ssp: 5, lambda left: None))
    rig.send("slow", 4)
    rig.consumer.start({URGENT: 0, SLOW: 0})
    assert rig.poll() == []
    rig.consumer.pause([URGENT])
    assert rig.poll() == [(SLOW, 0, 3)]
