"""The end of a changelog partition, step by step: what a task expects there, and what it finds."""

import uuid

import pytest
from rigs.store_rig import TickingClock

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.errors import ForeignRecords, StoreError
from samzapy.storage.changelog.topic import ChangelogEnd
from samzapy.system.local.factory import MemorySystemFactory

SSP = SystemStreamPartition("mem", "log", 0)


class Log:
    def __init__(self):
        self.settings = SystemSettings("mem", "memory", properties={"cluster": uuid.uuid4().hex})
        self.factory = MemorySystemFactory()
        self.admin = self.factory.admin(self.settings, "test")
        self.admin.create(StreamSpec("log", 1))
        self.producer = self.factory.producer(self.settings, "test")
        self.end = ChangelogEnd("s", SSP, 0, lambda _: self.factory.consumer(self.settings, "test"), TickingClock(1.0))

    def write(self, count):
        self.producer.send([OutgoingRecord("log", b"k", b"v", 0)] * count)
        self.producer.flush()

    def write_in_transaction(self, count):
        own = self.factory.producer(self.settings, "test", uuid.uuid4().hex)
        own.init_transactions()
        own.begin()
        own.send([OutgoingRecord("log", b"k", b"v", 0)] * count)
        own.flush()

    def upcoming(self):
        return self.admin.offsets([SSP])[SSP].upcoming


@pytest.fixture
def log():
    return Log()


def test_a_record_behind_the_own_ones_is_found_before_anything_is_sent(log):
    log.end.check(log.upcoming())
    log.write(1)
    with pytest.raises(ForeignRecords, match=r"mem.log\[0\]@0"):
        log.end.check(log.upcoming())


def test_a_record_that_comes_between_the_look_and_the_own_ones_is_found_by_the_gap(log):
    log.end.check(log.upcoming())
    log.write(1)
    log.write(2)
    with pytest.raises(ForeignRecords, match=r"mem.log\[0\]@0"):
        log.end.sent(last=2, count=2)


def test_a_record_behind_the_own_ones_in_their_open_transaction_is_found_by_the_gap(log):
    log.write_in_transaction(2)
    log.write(1)
    with pytest.raises(ForeignRecords, match=r"mem.log\[0\]@0"):
        log.end.sent(last=log.upcoming() - 1, count=2)


def test_what_stands_in_the_place_of_the_expected_control_record_is_looked_at(log):
    log.write(1)
    log.end.sent(last=0, count=1)
    log.end.committed(marker_offsets=1)
    log.write(2)
    with pytest.raises(ForeignRecords, match=r"mem.log\[0\]@1"):
        log.end.check(log.upcoming())


def test_offsets_that_go_back_are_those_of_another_log(log):
    log.write(5)
    log.end.sent(last=4, count=5)
    log.end.committed(marker_offsets=0)
    with pytest.raises(StoreError, match="deleted or created again"):
        log.end.sent(last=0, count=1)
