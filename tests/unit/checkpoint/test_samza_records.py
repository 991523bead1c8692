"""The checkpoint topic as JVM Samza shares it: records as Samza 1.8 writes them."""

import pytest

from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint import codec
from samzapy.checkpoint.codec import CHECKPOINT, SAMZA_CHECKPOINT, RecordKey, decode_key, encode_key
from samzapy.errors import RestoreError

KEY = (
    b'{"systemstreampartition-grouper-factory":"org.apache.samza.container.grouper.stream.GroupByPartitionFactory",'
    b'"taskName":"Partition 2","type":"checkpoint"}'
)
VALUE = (
    b'{"SystemStreamPartition [kafka, ledger-strings, 2]":{"system":"kafka","partition":"2",'
    b'"offset":"1795242216838-360361:1","stream":"ledger-strings"},"SystemStreamPartition [kafka, in, 2]":'
    b'{"system":"kafka","partition":"2","offset":"24","stream":"in"}}'
)
SSP = SystemStreamPartition("kafka", "in", 2)


def test_samzas_key_is_written_byte_for_byte():
    assert encode_key(RecordKey(SAMZA_CHECKPOINT, "Partition 2"), "partition") == KEY
    assert decode_key(KEY, "partition", "here") == RecordKey(SAMZA_CHECKPOINT, "Partition 2")


def test_a_samza_checkpoint_gives_the_offset_after_the_last_message_and_leaves_changelogs_out():
    assert codec.decode_samza(VALUE, "here") == Checkpoint({SSP: 25})


def test_what_is_written_for_samza_is_read_back_as_it_was():
    fresh = SystemStreamPartition("kafka", "in", 3)
    written = codec.encode_samza(Checkpoint({SSP: 25, fresh: 0}, {"s": 4}, epoch=9))
    assert codec.decode_samza(written, "here") == Checkpoint({SSP: 25})


@pytest.mark.parametrize("kind", [CHECKPOINT, SAMZA_CHECKPOINT, *(each.value for each in JobRecord)])
@pytest.mark.parametrize("grouper", ["partition", "ssp", "single"])
def test_a_key_survives_its_bytes(kind, grouper):
    key = RecordKey(kind, "Partition é")
    assert decode_key(encode_key(key, grouper), grouper, "here") == key


@pytest.mark.parametrize("key", [None, b"", b"not json", b"[]", KEY.replace(b'"checkpoint"', b'"checkpoint-v2"')])
def test_records_of_other_kinds_are_passed_over(key):
    assert decode_key(key, "partition", "here") is None


def test_records_of_another_grouper_are_refused():
    with pytest.raises(RestoreError, match=r"ckpt\[0\]@3: .*=org.*GroupByPartitionFactory, this job has org.*Ssp"):
        decode_key(KEY, "single", "ckpt[0]@3")


@pytest.mark.parametrize("value", [b"", b"[]", b'{"a": 1}', b'{"a": {"offset": "x"}}'])
def test_a_damaged_record_names_its_place(value):
    with pytest.raises(RestoreError, match=r"^ckpt\[0\]@3: not a version 1 checkpoint of Samza"):
        codec.decode_samza(value, "ckpt[0]@3")
