"""The other writer: what it has replaced is there again in the end."""

from __future__ import annotations

import uuid

import pytest

from samzapy.api.system import OutgoingRecord, SystemSettings
from samzapy.verify.evidence import Streams, replay
from samzapy.verify.processes import NoProgress
from samzapy.verify.scene import ForeignWriter

CHANGELOG = "sums"


@pytest.fixture
def streams():
    settings = SystemSettings(
        "memory", "samzapy.system.local.factory:MemorySystemFactory", properties={"cluster": uuid.uuid4().hex}
    )
    made = Streams(settings)
    made.create(CHANGELOG, 2)
    yield made
    made.close()


def write(streams: Streams, *records: tuple[bytes, bytes | None]) -> None:
    producer = streams.producer()
    producer.send([OutgoingRecord(CHANGELOG, key, value, 1) for key, value in records])
    producer.flush()
    producer.close()


@pytest.mark.parametrize("last", [b"7", None])
def test_a_wrong_record_stays_until_the_jobs_own_value_is_written_again(streams, last):
    write(streams, (b"a", b"5"), (b"a", last))
    before = replay(streams.read(CHANGELOG), 2)
    stranger = ForeignWriter(streams, CHANGELOG)
    stranger.write(4)
    assert replay(streams.read(CHANGELOG), 2) != before
    stranger.correct()
    assert replay(streams.read(CHANGELOG), 2) == before


def test_there_must_be_something_to_replace(streams):
    with pytest.raises(NoProgress, match="nothing to replace"):
        ForeignWriter(streams, CHANGELOG).write(0)
