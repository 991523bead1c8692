"""What every system promises about streams: creation, description, times, retention, compaction."""

import pytest
from system_under_test import polls

from samzapy.api.system import OutgoingRecord, StreamSpec, change_columns, create_all, describe_all
from samzapy.errors import EnvironmentFailure, SamzapyError, UnknownStream


def test_a_stream_is_described_as_it_was_created(system):
    stream = system.create(partitions=3, cleanup_policy="compact", delete_retention_ms="1234")
    found = system.admin.describe(stream)
    assert (found.stream, found.partitions) == (stream, 3)
    assert found.config["cleanup.policy"] == "compact"
    assert found.config["delete.retention.ms"] == "1234"
    assert found.stream_id


def test_creating_a_stream_again_changes_nothing(system):
    stream = system.create(partitions=2)
    before = system.admin.describe(stream)
    assert system.admin.create(StreamSpec(stream, 5)) is False
    assert system.admin.describe(stream) == before


def test_an_unknown_stream_is_described_as_none(system):
    assert system.admin.describe("no-such-stream") is None


def test_many_streams_are_described_as_each_alone(system):
    streams = [system.create(partitions=1), system.create(partitions=2, cleanup_policy="compact")]
    found = describe_all(system.admin, [*streams, "no-such-stream", streams[0]])
    assert found == {stream: system.admin.describe(stream) for stream in [*streams, "no-such-stream"]}
    assert describe_all(system.admin, []) == {}


def test_of_many_streams_those_that_exist_are_not_made_again(system):
    kept = system.create(partitions=2)
    new = [StreamSpec(f"{kept}-{number}", number, {"cleanup.policy": "compact"}) for number in (1, 3)]
    assert create_all(system.admin, [StreamSpec(kept, 5), *new]) == {spec.stream for spec in new}
    assert [system.admin.describe(stream).partitions for stream in (kept, *(spec.stream for spec in new))] == [2, 1, 3]
    for spec in new:
        assert system.write(spec.stream, b"a", partition=spec.partitions - 1) == 0
    assert create_all(system.admin, []) == set()


def test_streams_are_listed_in_order(system):
    made = sorted(system.create() for _ in range(3))
    listed = system.admin.list_streams()
    assert listed == sorted(listed)
    assert [stream for stream in listed if stream in made] == made


def test_a_stream_that_is_created_again_is_empty_and_has_another_id(system):
    stream = system.create()
    system.write(stream, b"a")
    before = system.admin.describe(stream).stream_id
    system.admin.delete(stream)
    assert system.admin.describe(stream) is None
    assert system.admin.create(StreamSpec(stream, 1)) is True
    assert system.admin.describe(stream).stream_id != before
    assert system.upcoming(system.ssp(stream)) == 0


def test_deleting_or_measuring_an_unknown_stream_fails(system):
    with pytest.raises(UnknownStream, match="no-such-stream"):
        system.admin.delete("no-such-stream")
    with pytest.raises(UnknownStream, match="no-such-stream"):
        system.admin.offsets([system.ssp("no-such-stream")])


def test_a_stream_that_others_delete_or_cut_is_noticed_by_who_measured_it(system):
    stream = system.create(partitions=3)
    partitions = [system.ssp(stream, number) for number in range(3)]
    assert system.admin.offsets(partitions).keys() == set(partitions)
    other = system.factory.admin(system.settings, "another-admin")
    other.delete(stream)
    with pytest.raises(UnknownStream):
        system.admin.offsets(partitions)
    other.create(StreamSpec(stream, 2))
    with pytest.raises(EnvironmentFailure):
        system.admin.offsets(partitions)
    assert all(log == (0, 0) for log in system.admin.offsets(partitions[:2]).values())
    other.close()


def test_an_impossible_stream_is_refused(system):
    for spec in (StreamSpec("no-partitions", 0), StreamSpec("a/b", 1), StreamSpec("s", 1, {"cleanup.policy": "keep"})):
        with pytest.raises(SamzapyError):
            system.admin.create(spec)
        assert system.admin.describe(spec.stream) is None


def test_offsets_are_found_by_time(system):
    stream = system.create(partitions=2)
    producer = system.producer()
    producer.send([OutgoingRecord(stream, b"k", b"v", 0, timestamp=1_600_000_000_000 + i * 1000) for i in range(5)])
    producer.flush()
    ssp, empty = system.ssp(stream, 0), system.ssp(stream, 1)

    def at(seconds):
        return system.admin.offsets_at([ssp, empty], 1_600_000_000_000 + seconds * 1000)

    assert at(-10) == {ssp: 0, empty: 0}
    assert at(2) == {ssp: 2, empty: 0}
    assert at(3.5)[ssp] == 4
    assert at(10)[ssp] == 5


def test_deleted_records_are_gone_and_offsets_go_on(system):
    stream = system.create()
    ssp = system.ssp(stream)
    system.write(stream, *[b"%d" % i for i in range(5)])
    system.admin.delete_records(ssp, 3)
    assert tuple(system.admin.offsets([ssp])[ssp]) == (3, 5)
    assert system.write(stream, b"5") == 5
    assert system.values(stream) == [b"3", b"4", b"5"]


def test_deleting_records_beyond_the_end_fails(system):
    stream = system.create()
    system.write(stream, b"a")
    with pytest.raises(SamzapyError):
        system.admin.delete_records(system.ssp(stream), 9)
    assert system.values(stream) == [b"a"]


# Compaction; a system that compacts in its own time is asked for the policy only.


@pytest.fixture
def compacts(system):
    if not hasattr(system.admin, "compact"):
        stream = system.create(cleanup_policy="compact")
        assert system.admin.describe(stream).config["cleanup.policy"] == "compact"
        return None
    return system.admin.compact


def changes(system, stream, *pairs):
    producer = system.producer()
    producer.send_columns(change_columns(stream, 0, pairs))
    producer.flush()


def test_compaction_keeps_the_newest_record_of_each_key_at_its_offset(system, compacts):
    stream = system.create(cleanup_policy="compact")
    changes(system, stream, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"))
    if compacts:
        assert compacts(stream) == 2
        assert system.read(stream) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]
        assert tuple(system.admin.offsets([system.ssp(stream)])[system.ssp(stream)]) == (0, 5)


def test_a_reader_passes_the_holes_that_compaction_left(system, compacts):
    stream = system.create(cleanup_policy="compact", delete_retention_ms="0")
    changes(system, stream, (b"a", b"1"), (b"b", b"1"), (b"a", None), (b"b", None))
    ssp = system.ssp(stream)
    if compacts:
        assert compacts(stream) == 4
    consumer = system.reader((ssp, 1))
    for _ in polls(consumer, lambda: consumer.position(ssp) >= 4):
        pass
    assert consumer.position(ssp) == 4


def test_a_tombstone_outlives_its_key_for_the_retention(system, compacts):
    stream = system.create(cleanup_policy="compact", delete_retention_ms="3600000")
    changes(system, stream, (b"a", b"1"), (b"a", None))
    if compacts:
        assert compacts(stream) == 1
        assert compacts(stream) == 0
    assert system.read(stream)[-1] == (1, b"a", None)


@pytest.mark.parametrize("config", [{}, {"cleanup_policy": "compact", "min_compaction_lag_ms": "3600000"}])
def test_records_of_a_stream_that_is_not_compacted_or_young_ones_are_kept(system, compacts, config):
    stream = system.create(**config)
    changes(system, stream, (b"a", b"1"), (b"a", b"2"))
    if compacts:
        assert compacts(stream) == 0
    assert len(system.read(stream)) == 2
