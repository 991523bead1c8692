import gc
from itertools import pairwise

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from samzapy.system.kafka.fetching import batches


def message(topic, partition, offset, headers=None, error=None):
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=b"k%d" % offset,
        value=b"v%d" % offset,
        headers=headers,
        timestamp=(1, 1000 + offset),
        error=error,
    )


def test_a_run_of_one_partition_is_one_batch():
    (batch,) = batches("kafka", [message("t", 3, offset) for offset in (4, 5, 9)])
    assert str(batch.ssp) == "kafka.t[3]"
    assert list(batch.offsets) == [4, 5, 9]
    assert list(batch.keys) == [b"k4", b"k5", b"k9"]
    assert list(batch.values) == [b"v4", b"v5", b"v9"]
    assert list(batch.timestamps) == [1004, 1005, 1009]
    assert (batch.timestamps[-1], list(batch.timestamps[1:]), len(batch.timestamps)) == (1009, [1005, 1009], 3)
    assert batch.headers is None


def test_headers_of_one_record_make_a_column():
    first, second = message("t", 0, 0), message("t", 0, 1, [("a", b"1")])
    (batch,) = batches("kafka", [first, second])
    assert list(batch.headers) == [None, [("a", b"1")]]


def test_a_batch_keeps_none_of_the_client_s_messages():
    messages = [message("times", 3, offset) for offset in (4, 5, 9)]
    (batch,) = batches("kafka", messages)
    del messages
    assert not any(isinstance(each, Message) and each.topic() == "times" for each in gc.get_objects())
    assert list(batch.timestamps) == [1004, 1005, 1009]


def test_topics_are_kept_apart_where_their_partitions_are_equal():
    found = list(batches("kafka", [message("a", 0, 1), message("b", 0, 2)]))
    assert [str(batch.ssp) for batch in found] == ["kafka.a[0]", "kafka.b[0]"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=40))
def test_batches_are_the_messages_in_their_order(targets):
    messages = [message(topic, partition, offset) for offset, (topic, partition) in enumerate(targets)]
    found = list(batches("kafka", messages))
    flat = [(batch.ssp.stream, batch.ssp.partition, offset) for batch in found for offset in batch.offsets]
    assert flat == [(topic, partition, offset) for offset, (topic, partition) in enumerate(targets)]
    assert all(one.ssp != other.ssp for one, other in pairwise(found))
