"""Whatever bytes a marker or a record of the checkpoint topic holds, it is what was written or a typed error."""

import hashlib
import json
from copy import deepcopy

from hypothesis import example, given
from hypothesis import strategies as st

from samzapy.api.checkpoint import Checkpoint, JobRun, SenderState
from samzapy.api.stream import SystemStreamPartition
from samzapy.checkpoint import codec, samza
from samzapy.checkpoint.records import Startpoint, startpoints_from_json, startpoints_to_json
from samzapy.errors import RestoreError
from samzapy.storage.backup.snapshot import SnapshotFile, SnapshotIndex
from samzapy.storage.local.marker import Marker, StoreIdentity

SSP = SystemStreamPartition("kafka", "orders.eu", 3)
MARKER = Marker(StoreIdentity("job-1", "s", 3, "t", True, "string", "json", 60_000), 7, 123, {str(SSP): 9})
CHECKPOINT = Checkpoint(
    {SSP: 481},
    {"counts": 92, "new": -1},
    7,
    1_700_000_000_000,
    5,
    {SSP: "5f0c"},
    {SSP: -3},
    {SSP: {"shop-1/Partition 0": SenderState(None, 8, False, True)}},
    {"counts": ("string", "json")},
)
RUN = JobRun("5f0c", 1_700_000_000_000, "a", 42)
STARTPOINTS = (Startpoint("5f0c", SSP, "@17", 1_700_000_000_000, None), Startpoint("5f0d", SSP, "3", 17, "Partition 0"))
DEEP = "[" * 100_000

#: The whole of Unicode takes Hypothesis seconds to prepare.
TEXT = st.text(alphabet="a0.[]@-ä\0\ud800", max_size=5)

#: What a field may hold that no version writes.
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXT,
    st.lists(st.integers(), max_size=3),
    st.dictionaries(TEXT, st.integers(), max_size=2),
    st.sampled_from(["\ud800", "a.b[-1]", "a.b[٣]", "a.b[0]\n", "NaN", 2**63, -(2**63), 1e400, -1, -2, [[]], {"": {}}]),
)


def places(value, path=()):
    """Every field of a JSON object, however deep."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


@st.composite
def mutations(draw, written: bytes):
    """A record with one field that holds, or is called, something else, or is not there."""
    record = deepcopy(json.loads(written))
    *path, last = draw(st.sampled_from(list(places(record))))
    parent = record
    for key in path:
        parent = parent[key]
    old = parent.pop(last)
    if isinstance(parent, list):
        parent.insert(last, draw(JUNK))
    else:
        name = draw(st.sampled_from([last, last, last, draw(TEXT), "\ud800"]))
        parent |= draw(st.sampled_from([{name: draw(JUNK)}, {name: old}, {}]))
    return json.dumps(record).encode()


def assert_plain(value):
    """No bool for a number, nothing that is no number, no lone surrogate."""
    if isinstance(value, dict):
        for key, each in value.items():
            assert_plain(key)
            assert_plain(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            assert_plain(each)
    elif type(value) is str:
        value.encode()
    else:
        assert value is None or type(value) in {int, bool}


ODDITIES = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"\xff",
    b"NaN",
    b'{"format": 1}',
    DEEP.encode(),
    b'{"format":' * 5_000,
    b'{"format": 1, "x": ' + DEEP.encode() + b"}",
    b'{"format": true, "job": "\\ud800"}',
    b"9" * 10_000,
]


def read_or_refused(read):
    """What was read and no text, or None and that of the error."""
    try:
        return read(), ""
    except RestoreError as error:
        return None, str(error)


def odd(test):
    for data in ODDITIES:
        test = example(data)(test)
    return test


@given(st.binary(max_size=50) | mutations(MARKER.to_bytes()))
@odd
def test_any_bytes_are_a_marker_or_a_value_error(data):
    try:
        read = Marker.from_bytes(data)
    except ValueError:
        return
    identity = read.identity
    assert Marker.from_bytes(read.to_bytes()) == read
    assert_plain([identity.job, identity.store, identity.topic_id, identity.key_serde, identity.msg_serde])
    assert type(identity.partition) is int
    assert identity.partition >= 0
    assert type(identity.stamped) is bool
    assert identity.deletions_kept_ms is None or (
        type(identity.deletions_kept_ms) is int and identity.deletions_kept_ms >= 0
    )
    assert read.changelog_offset >= -1
    assert read.time_ms >= 0
    assert_plain([read.changelog_offset, read.time_ms, dict(read.input_offsets)])
    assert all(type(offset) is int and offset >= 0 for offset in read.input_offsets.values())


@given(st.binary(max_size=50) | mutations(codec.encode(CHECKPOINT)))
@odd
def test_any_bytes_are_a_checkpoint_or_an_error_that_names_the_place(data):
    read, refusal = read_or_refused(lambda: codec.decode(data, "ckpt[0]@12"))
    if read is None:
        assert refusal.startswith("ckpt[0]@12: not a checkpoint (")
        refusal.encode()
        return
    assert codec.decode(codec.encode(read), "again") == read
    assert all(type(offset) is int and offset >= 0 for offset in read.input_offsets.values())
    assert all(type(offset) is int and offset >= -1 for offset in read.changelog_offsets.values())
    assert type(read.epoch) is type(read.time_ms) is int
    assert read.clock is None or type(read.clock) is int
    assert_plain([dict(read.startpoints), dict(read.event_times), dict(read.senders), dict(read.serdes)])


@given(st.binary(max_size=50) | mutations(codec.encode_partitions({"Partition 0": 0, "Partition 1": 1})))
@odd
def test_any_bytes_are_a_changelog_mapping_or_an_error_that_names_the_place(data):
    read, refusal = read_or_refused(lambda: codec.decode_partitions(data, "ckpt[0]@12"))
    if read is None:
        assert refusal.startswith("ckpt[0]@12: not a changelog mapping (")
        return
    assert_plain(read)
    assert all(type(number) is int and number >= 0 for number in read.values())


@given(st.binary(max_size=50) | mutations(codec.encode_owner(RUN)))
@odd
def test_any_bytes_are_an_owner_or_an_error_that_names_the_place(data):
    read, refusal = read_or_refused(lambda: codec.decode_owner(data, "ckpt[0]@12"))
    if read is None:
        assert refusal.startswith("ckpt[0]@12: not the record of a run (")
        return
    assert_plain([read.id, read.started_ms, read.host, read.pid])


@given(st.binary(max_size=50) | mutations(codec.encode_record(startpoints_to_json(STARTPOINTS))))
@odd
def test_any_bytes_are_startpoints_or_a_typed_error(data):
    read, refusal = read_or_refused(lambda: startpoints_from_json(codec.decode_record(data, "ckpt[0]@12")))
    if read is None:
        assert refusal.startswith(("ckpt[0]@12: not a record of this job (", "the job's record of its startpoints "))
        return
    assert all(each.ssp.partition >= 0 and type(each.created_ms) is int for each in read)
    assert_plain([(each.id, str(each.ssp), each.position, each.created_ms, each.task) for each in read])


@given(st.binary(max_size=50) | mutations(samza.encode(Checkpoint({SSP: 25}))))
@odd
def test_any_bytes_are_a_checkpoint_of_samza_or_an_error_that_names_the_place(data):
    read, refusal = read_or_refused(lambda: samza.decode(data, "ckpt[0]@12"))
    if read is None:
        assert refusal.startswith("ckpt[0]@12: not a version 1 checkpoint of Samza (")
        return
    assert all(type(offset) is int and ssp.partition >= 0 for ssp, offset in read.input_offsets.items())


@given(mutations(SnapshotIndex(MARKER, {"a.sst": SnapshotFile("ab", 3)}).to_bytes().partition(b"\n")[2]))
def test_any_body_of_an_index_is_one_or_a_value_error(body):
    digest = hashlib.blake2b(body, digest_size=20).hexdigest().encode()
    try:
        read = SnapshotIndex.from_bytes(digest + b"\n" + body)
    except ValueError:
        return
    assert all("/" not in name and type(file.size) is int and file.size >= 0 for name, file in read.files.items())
    assert SnapshotIndex.from_bytes(read.to_bytes()) == read
