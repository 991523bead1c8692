"""From record columns to envelopes."""

import json

import pytest

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.container.inputs.decode import Decoder, TolerantDecoder, Undecodable
from samzapy.errors import SerdeError

SSP = SystemStreamPartition("kafka", "orders", 2)


class Json(Serde):
    def to_bytes(self, value):
        return json.dumps(value).encode()

    def from_bytes(self, data):
        return json.loads(data)


def batch(values, keys=None, headers=None):
    n = len(values)
    return RecordBatch(SSP, range(480, 480 + n), keys or [b'"k"'] * n, values, [1_000 + i for i in range(n)], headers)


def decoder(key=None, value=None):
    return Decoder(key or Json(), value or Json())


def test_an_envelope_knows_everything_about_its_message():
    (first, second) = decoder().decode(batch([b"1", b'{"a": 2}'], headers=[None, [("h", b"x")]]), 77)
    assert first[:4] == (SSP, 480, "k", 1)
    assert (second.offset, second.message, second.headers, second.event_time) == (481, {"a": 2}, [("h", b"x")], 1_001)
    assert (second.arrival_time, second.size, second.position) == (77, 8, "kafka.orders[2]@481")


def test_nulls_stay_none_beside_messages_that_decode():
    envelopes = decoder().decode(batch([b"1", None, b"3"], keys=[None, b'"b"', b'"c"']), 0)
    assert [(e.key, e.message, e.size) for e in envelopes] == [(None, 1, 1), ("b", None, 0), ("c", 3, 1)]


def test_without_serdes_bytes_pass_through():
    passing = Decoder(None, None)
    (envelope,) = passing.decode(batch([b"raw"], keys=[b"k"]), 0)
    assert (envelope.key, envelope.message) == (b"k", b"raw")


@pytest.mark.parametrize(
    ("values", "keys", "part"), [([b"1", b"{"], None, "message"), ([b"1", b"2"], [b"1", b"{"], "key")]
)
def test_what_does_not_decode_is_named_by_partition_offset_and_part(values, keys, part):
    with pytest.raises(SerdeError, match=rf"^kafka\.orders\[2\]@481: {part}: .*\(bytes 7b\)$"):
        decoder().decode(batch(values, keys), 0)


def test_a_tolerant_decoder_keeps_what_does_not_decode_in_its_place_with_its_bytes():
    headers = [None, [("h", b"x")], None, None]
    runs = TolerantDecoder(Json(), Json()).runs(batch([b"1", b"{", b"3", b"}"], headers=headers), 7)
    assert [[e.offset for e in run] for run in runs] == [[480], [481], [482], [483]]
    assert [type(run) for run in runs] == [list, Undecodable, list, Undecodable]
    (raw,) = runs[1]
    assert (raw.key, raw.message, raw.headers, raw.event_time, raw.size) == (b'"k"', b"{", [("h", b"x")], 1_001, 1)
    with pytest.raises(SerdeError, match="@481: message"):
        runs[1].decode()


def test_a_tolerant_decoder_leaves_a_good_batch_whole():
    (run,) = TolerantDecoder(Json(), Json()).runs(batch([b"1", b"2"]), 0)
    assert [e.message for e in run] == [1, 2]
