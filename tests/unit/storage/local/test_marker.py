import json
from dataclasses import replace

import pytest

from samzapy.api.system import OffsetRange
from samzapy.config.stores import StoreConfig
from samzapy.storage.local.marker import Acceptance, Marker, StoreIdentity
from samzapy.testing import ManualClock

MINE = StoreIdentity("job-1", "s", 3, "topic")
DAY_MS = 86_400_000
NOW = 10 * DAY_MS
LOG = OffsetRange(5, 100)


def marker(offset=50, time_ms=NOW - 1_000, **other):
    return Marker(
        StoreIdentity(**{"job": "job-1", "store": "s", "partition": 3, "topic_id": "topic"} | other), offset, time_ms
    )


def refusal(found, identity, log, retention_ms, now_ms):
    store = StoreConfig("s", "rocksdb", "string", "string")
    return Acceptance(store, identity, log, retention_ms, ManualClock(now_ms)).refusal(found)


def test_a_marker_survives_its_bytes():
    written = Marker(MINE, 7, 123, {"kafka.in[0]": 9})
    assert Marker.from_bytes(written.to_bytes()) == written


#: As versions wrote it that knew neither serdes nor how long deletions were kept.
BEFORE = (
    b'{"format":1,"job":"job-1","store":"s","partition":3,"topic_id":"topic","stamped":false,"changelog_offset":7,'
    b'"input_offsets":{"kafka.in[0]":9},"time_ms":123}'
)


def test_a_marker_of_the_version_before_is_read_and_written_back_as_it_was():
    read = Marker.from_bytes(BEFORE)
    assert read == Marker(MINE, 7, 123, {"kafka.in[0]": 9})
    assert read.to_bytes() == BEFORE


def test_the_version_before_reads_what_is_written_now():
    now = Marker(replace(MINE, key_serde="string", msg_serde="json", deletions_kept_ms=60_000), 7, 123)
    now = replace(now, input_offsets={"kafka.in[0]": 9})
    assert json.loads(now.to_bytes()).items() >= json.loads(BEFORE).items()


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b'{"format": 2}', b"\xff", b'{"format": 1, "job": "j"}'])
def test_what_is_no_marker_is_refused(data):
    with pytest.raises(ValueError):
        Marker.from_bytes(data)


@pytest.mark.parametrize("offset", [4, 5, 50, 99])
def test_a_young_store_inside_its_changelog_is_used(offset):
    assert refusal(marker(offset), MINE, LOG, DAY_MS, NOW) is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (marker(job="other-1"), "it belongs to job 'other-1', not 'job-1'"),
        (marker(store="t"), "it belongs to store 't', not 's'"),
        (marker(partition=2), "it belongs to partition 2, not 3"),
        (marker(topic_id="old"), "its changelog (id old) was replaced by another one (id topic)"),
        (marker(100), "it is at changelog offset 100, the changelog ends before 100"),
        (marker(3), "it is at changelog offset 3, the changelog begins at 5"),
        (
            marker(time_ms=NOW - DAY_MS),
            "it is 86400000 ms old, deletions are kept for 86400000 ms (delete.retention.ms)",
        ),
        (
            marker(time_ms=NOW + 600_001),
            "its time is 600001 ms ahead of the clock, deletions are kept for 86400000 ms (delete.retention.ms)",
        ),
    ],
)
def test_a_store_that_must_not_be_used_says_why(found, reason):
    assert refusal(found, MINE, LOG, DAY_MS, NOW) == reason


@pytest.mark.parametrize(("kept_ms", "ahead_ms"), [(DAY_MS, 600_000), (60_000, 60_000)])
def test_a_store_of_a_machine_whose_clock_is_a_little_ahead_is_used(kept_ms, ahead_ms):
    assert refusal(marker(time_ms=NOW + ahead_ms), MINE, LOG, kept_ms, NOW) is None
    assert refusal(marker(time_ms=NOW + ahead_ms + 1), MINE, LOG, kept_ms, NOW)


def test_an_old_store_with_nothing_left_to_read_is_used():
    assert refusal(marker(99, time_ms=0), MINE, LOG, DAY_MS, NOW) is None
