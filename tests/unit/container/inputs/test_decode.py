"""From record columns to envelopes."""

import json

import pytest

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.container.inputs.decode import Decoder, Undecodable, decode_column
from samzapy.errors import SerdeError, Unreachable

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


def test_nulls_stay_none_beside_messages_that_decode():
    envelopes = decoder().decode(batch([b"1", None, b"3"], keys=[None, b'"b"', b'"c"']), 0)
    assert [(e.key, e.message, e.size) for e in envelopes] == [(None, 1, 1), ("b", None, 0), ("c", 3, 1)]


@pytest.mark.parametrize(
    ("values", "keys", "part"), [([b"1", b"{"], None, "message"), ([b"1", b"2"], [b"1", b"{"], "key")]
)
def test_what_does_not_decode_is_named_by_partition_offset_and_part(values, keys, part):
    with pytest.raises(
        SerdeError, match=rf"^kafka\.orders\[2\]@481: {part}: .*\(bytes 7b\); change systems.kafka.samza\."
    ):
        decoder().decode(batch(values, keys), 0)


def test_a_tolerant_decoder_keeps_what_does_not_decode_in_its_place():
    headers = [None, [("h", b"x")], None, None]
    runs = Decoder(Json(), Json(), tolerant=True).runs(batch([b"1", b"{", b"3", b"}"], headers=headers), 7)
    assert [[e.offset for e in run] for run in runs] == [[480], [481], [482], [483]]
    assert [type(run) for run in runs] == [list, Undecodable, list, Undecodable]
    (raw,) = runs[1]
    assert (raw.key, raw.message, raw.headers, raw.event_time, raw.size) == (b'"k"', b"{", [("h", b"x")], 1_001, 1)
    assert "@481: message" in str(runs[1].failure)


class CountingJson(Json):
    """Notes what it decodes."""

    def __init__(self):
        self.seen = []

    def from_bytes(self, data):
        self.seen.append(data)
        return super().from_bytes(data)


def test_a_null_or_a_bad_record_does_not_make_its_neighbours_decode_again():
    counting = CountingJson()
    values = [b"1", b"2", None, b"4", b"{", b"6", None, b"]", b"9"]
    runs = Decoder(Json(), counting, tolerant=True).runs(batch(values), 0)
    assert [seen for seen in counting.seen if seen is not None] == [value for value in values if value is not None]
    assert None not in counting.seen
    assert [[e.message for e in run] for run in runs] == [[1, 2, None, 4], [b"{"], [6, None], [b"]"], [9]]
    assert [[e.size for e in run] for run in runs] == [[1, 1, 0, 1], [1], [1, 0], [1], [1]]


def test_the_first_bad_record_is_named_and_its_key_before_its_message():
    with pytest.raises(SerdeError, match=r"@481: message: "):
        decoder().decode(batch([b"1", b"{", b"3"], [b"1", b"2", b"{"]), 0)
    with pytest.raises(SerdeError, match=r"@481: key: "):
        decoder().decode(batch([b"1", b"{", b"3"], [b"1", b"{", b"2"]), 0)


class JsonOrNothing(CountingJson):
    """Answers a null with an object."""

    def from_bytes(self, data):
        return super().from_bytes(data) if data else {}


@pytest.mark.parametrize("neighbour", [b"1", None, b"{"])
def test_a_null_stays_null_whatever_the_serde_would_make_of_it(neighbour):
    serde = JsonOrNothing()
    assert decode_column(serde, [neighbour, None, b"2"], {})[1:] == [None, 2]
    (run,) = Decoder(JsonOrNothing(), serde).runs(batch([b"1", None], keys=[None, b"2"]), 0)
    assert [(each.key, each.message) for each in run] == [(None, 1), (2, None)]
    assert None not in serde.seen


class WithoutService(Json):
    """Reads what is JSON, and needs a service for the rest."""

    def __init__(self, failure):
        self.failure = failure

    def from_bytes(self, data):
        if data == b"ask":
            raise self.failure
        return super().from_bytes(data)


@pytest.mark.parametrize("values", [[b"1", b"ask", b"3"], [b"{", b"ask"], [None, b"ask"]])
@pytest.mark.parametrize("tolerant", [False, True])
def test_a_service_that_a_serde_does_not_reach_is_no_fault_of_a_message(tolerant, values):
    found = Decoder(Json(), WithoutService(Unreachable("registry: does not answer")), tolerant=tolerant)
    expected = r"^kafka\.orders\[2\]@480 to \d+: cannot be decoded now: registry: does not answer$"
    with pytest.raises(Unreachable, match=expected):
        found.runs(batch(values), 0)
