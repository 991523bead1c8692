"""An entry that a store cannot read is named by the changelog record that it comes from."""

from uuid import uuid4

import pytest
from rigs.store_rig import LOGGED, TickingClock, store_job

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.streams.systems import SystemSettings
from samzapy.errors import SerdeError
from samzapy.storage.changelog.topic import ChangelogOrigin
from samzapy.system.local.factory import MemorySystemFactory
from samzapy.testing import open_store

LOG = SystemStreamPartition("changelogs", "s-log", 0)
STACKS = {
    "cached": {},
    "no-cache": {"object.cache.size": "0"},
    "copies": {"object.cache.mode": "copy"},
    "measured": {"disallow.large.messages": "true"},
    "expiring": {"rocksdb.ttl.ms": "3600000"},
}
FACTORY = MemorySystemFactory()


@pytest.fixture
def changelogs():
    return SystemSettings(
        "changelogs",
        "samzapy.system.local.factory.MemorySystemFactory",
        properties={"cluster": f"unreadable-{uuid4()}"},
    )


@pytest.fixture
def changelog(changelogs):
    FACTORY.admin(changelogs, "rig").create(StreamSpec(LOG.stream, 1))
    return changelogs


def job(**keys):
    return store_job(LOGGED | keys)


def append(changelogs, *entries):
    producer = FACTORY.producer(changelogs, "rig")
    now_ms = SYSTEM_CLOCK.wall_ms()
    producer.send([OutgoingRecord(LOG.stream, key, value, 0, timestamp=now_ms) for key, value in entries])
    producer.flush()
    producer.close()


def origin(changelogs, clock=SYSTEM_CLOCK, consumer_of=None):
    return ChangelogOrigin(
        LOG,
        lambda _: FACTORY.admin(changelogs, "rig"),
        consumer_of or (lambda _: FACTORY.consumer(changelogs, "rig")),
        clock,
    )


def drained(entries):
    with entries as found:
        return list(found)


READS = {
    "get": lambda store: store.get("bad"),
    "get_all": lambda store: store.get_all(["good", "bad"]),
    "all": lambda store: drained(store.all()),
    "range": lambda store: drained(store.range("a", "z")),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("stack", STACKS)
def test_a_value_is_named_by_its_newest_record(tmp_path, changelogs, stack, read):
    with open_store(job(**STACKS[stack]), "s", tmp_path, changelogs=changelogs) as opened:
        append(changelogs, (b"bad", b"{"), (b"good", b"1"), (b"bad", b"2"), (b"bad", b"{"), (b"other", b"{"))
        opened.lose_local_state()
        with pytest.raises(SerdeError, match=r"store 's': value of key 'bad', changelog changelogs\.s-log\[0\]@3: "):
            READS[read](opened.store)


@pytest.mark.parametrize("stack", STACKS)
def test_a_key_is_named_by_its_newest_record(tmp_path, changelogs, stack):
    with open_store(job(**STACKS[stack]), "s", tmp_path, changelogs=changelogs) as opened:
        append(changelogs, (b"good", b"1"), (b"\xff\xfe", b"1"), (b"\xff\xfe", b"2"), (b"good", b"2"))
        opened.lose_local_state()
        with pytest.raises(SerdeError, match=r"store 's': key b'\\xff\\xfe', changelog changelogs\.s-log\[0\]@2: "):
            drained(opened.store.all())


def test_what_is_in_no_record_is_named_by_its_partition(changelog):
    append(changelog, (b"k", b"new"))
    find = origin(changelog)
    assert find(b"k", b"new") == "changelogs.s-log[0]@0"
    assert find(b"k", b"older") == find(b"absent", None) == "changelogs.s-log[0]"


def test_a_changelog_that_cannot_be_read_leaves_the_partition(changelog, caplog):
    def broken(_):
        raise OSError("no way there")

    append(changelog, (b"k", b"v"))
    assert origin(changelog, consumer_of=broken)(b"k", b"v") == "changelogs.s-log[0]"
    assert "no way there" in caplog.text


def test_a_store_spends_only_so_long_on_looking(changelog):
    append(changelog, (b"k", b"v"))
    consumers = []

    def consumer_of(_):
        consumers.append(FACTORY.consumer(changelog, "rig"))
        return consumers[-1]

    find = origin(changelog, TickingClock(9.0), consumer_of)
    found = [find(b"k", b"v") for _ in range(4)]
    assert found[-1] == "changelogs.s-log[0]"
    assert len(consumers) < 4
