"""Whatever bytes a marker or a record of the checkpoint topic holds, it is what was written or a typed error."""

import contextlib
import hashlib
import json
import zlib
from copy import deepcopy

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from samzapy.admin.positions import CHECKPOINT_CLOCK, kept_clocks
from samzapy.admin.running import describe_run
from samzapy.api.checkpoint import Checkpoint, JobRecord, JobRun, RecordHistory, SenderState
from samzapy.api.collector import CONTROL_HEADER, Watermark
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import RecordBatch
from samzapy.checkpoint import codec
from samzapy.checkpoint.records import Adopted, Startpoint, read_copied, startpoints_from_json, startpoints_to_json
from samzapy.checkpoint.states import TopicCheckpointStore
from samzapy.container.event_time import control_messages
from samzapy.container.supervision.job_records import HandoverRequest
from samzapy.errors import EnvironmentFailure, RestoreError, SamzapyError
from samzapy.job import planner
from samzapy.job.planner import InputPartitions, follow_growth
from samzapy.operators.persistent import task as states
from samzapy.runner.spark.placement import Locality
from samzapy.storage.backup.snapshot import SnapshotFile, SnapshotIndex
from samzapy.storage.local.marker import Marker, StoreIdentity

SSP = SystemStreamPartition("kafka", "orders.eu", 3)
MARKER = Marker(
    StoreIdentity("job-1", "s", 3, "t", True, "string", "json", deletions_kept_ms=60_000), 7, 123, {str(SSP): 9}
)
CHECKPOINT = Checkpoint(
    {SSP: 481},
    {"counts": 92, "new": -1},
    7,
    1_700_000_000_000,
    5,
    startpoints={SSP: "5f0c"},
    event_times={SSP: -3},
    senders={SSP: {"shop-1/Partition 0": SenderState(None, 8, False, True)}},
    serdes={"counts": ("string", "json")},
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
    try:
        read = codec.decode(data, "ckpt[0]@12")
    except RestoreError as error:
        assert str(error).encode().startswith(b"ckpt[0]@12: not a checkpoint (")  # noqa: PT017
        return
    assert codec.decode(codec.encode(read), "again") == read
    assert all(type(offset) is int and offset >= 0 for offset in read.input_offsets.values())
    assert all(type(offset) is int and offset >= -1 for offset in read.changelog_offsets.values())
    assert type(read.epoch) is type(read.time_ms) is int
    assert read.clock is None or type(read.clock) is int
    assert_plain([dict(read.startpoints), dict(read.event_times), dict(read.senders), dict(read.serdes)])


def used_partitions(data):
    read = codec.partitions_of(codec.decode_record(data, "ckpt[0]@12", JobRecord.PARTITIONS.value))
    assert_plain(read)
    assert all(type(number) is int and number >= 0 for number in read.values())


def used_owner(data):
    read = codec.owner_of(codec.decode_record(data, "ckpt[0]@12", JobRecord.OWNER.value))
    assert_plain([read.id, read.started_ms, read.host, read.pid])
    describe_run(read)
    assert read.lease_ms <= 86_400_000


def used_startpoints(data):
    read = startpoints_from_json(codec.decode_record(data, "ckpt[0]@12"))
    assert all(each.ssp.partition >= 0 and type(each.created_ms) is int for each in read)
    assert_plain([(each.id, str(each.ssp), each.position, each.created_ms, each.task) for each in read])


def used_samza(data):
    read = codec.decode_samza(data, "ckpt[0]@12")
    assert all(type(offset) is int and ssp.partition >= 0 for ssp, offset in read.input_offsets.items())


#: Each record of the checkpoint topic: its bytes, and a function that reads and uses them.
ENCODED = {
    "partitions": (codec.encode_record({"partitions": {"P 0": 0, "P 1": 1}}), used_partitions),
    "owner": (codec.encode_record(codec.owner_record(RUN)), used_owner),
    "startpoints": (codec.encode_record(startpoints_to_json(STARTPOINTS)), used_startpoints),
    "samza": (codec.encode_samza(Checkpoint({SSP: 25})), used_samza),
}
REFUSALS = (
    "ckpt[0]@12: not a record of this job (",
    "ckpt[0]@12: not a version 1 checkpoint of Samza (",
    "the job's record of its startpoints ",
)


@pytest.mark.parametrize("record", ENCODED)
def test_any_bytes_are_a_record_of_the_job_or_an_error_that_names_it(record):
    written, use = ENCODED[record]
    use(written)

    @given(st.binary(max_size=50) | mutations(written))
    @odd
    def check(data):
        try:
            use(data)
        except RestoreError as error:
            assert str(error).startswith(REFUSALS)  # noqa: PT017

    check()


def used_inputs(data):
    known = planner.from_json(data)
    assert_plain([(str(stream), each.first, each.grouped, each.last) for stream, each in known.items()])
    with contextlib.suppress(EnvironmentFailure):
        follow_growth(known, dict.fromkeys(known, 4), keeps_state=True)


class Records:
    """One record of a job, at hand."""

    def __init__(self, data):
        self.checkpoints, self.close = self, lambda: None
        self.read_record = lambda _: RecordHistory([data])


def used_copied(data):
    read_copied(Records(data))


def used_hosts(data):
    locality = Locality(None)
    locality._read(Records(data))
    assert_plain(sorted(locality.hosts()))


def used_handover(data):
    describe_run(HandoverRequest.from_json(data).by)


def used_clock(data):
    assert_plain(kept_clocks({}, data).checkpoint)


def used_states(data):
    try:
        packed = msgpack.packb(data, unicode_errors="surrogatepass")
    except OverflowError:
        return
    read = states.decode(packed, "ckpt[0]@12")
    assert all(type(offset) is int and offset >= 0 for offset in read.positions.values())


def used_control(data):
    control_messages.decode(json.dumps(data).encode(), [(CONTROL_HEADER, b"watermark")], "ckpt[0]@12")


class Parts(TopicCheckpointStore):
    """The states of a task, of records at hand."""

    def __init__(self, records):
        super().__init__("mem", None, "t", None, job=("j", "1"))
        keys, values = zip(*records, strict=True)
        self._take(RecordBatch(SSP, range(len(keys)), keys, values, [0] * len(keys)))
        self._refuse_another_job(SSP)
        self._parts = {time_ms: set(found) for time_ms, found in self._values.items()}
        self._ssp = SSP


def used_parts(data):
    head = {key: data[key] for key in data.keys() - {"key"}}
    key = json.dumps(data.get("key")).encode()
    store = Parts([(key, b"state"), (b'{"task": "t", "time": 5}', json.dumps(head).encode())])
    assert all(store.recover(time_ms) == b"state" for time_ms in store.times())


#: Each record of a job: what is written, and a function that reads it and uses what it has read.
RECORDS = {
    "inputs": (planner.to_json({SystemStream("kafka", "orders"): InputPartitions(2, 2, 4)}), used_inputs),
    "adopted": (Adopted({("kafka.s", "5f0c"): {0: 481}}).to_json(), Adopted.from_json),
    "copied": ({"stores": {"s": "kafka.s-v2"}}, used_copied),
    "hosts": ({"tasks": {"Partition 0": {"host": "a", "executor": "1"}}}, used_hosts),
    "handover": (HandoverRequest("5f0c", RUN).to_json(), used_handover),
    "clock": ({CHECKPOINT_CLOCK: 17}, used_clock),
    "states": ({"format": 1, "time": 17, "inputs": {str(SSP): 481}, "state": []}, used_states),
    "control": (
        json.loads(control_messages.encode(control_messages.SentControl("a", 2, Watermark(17)))[1]),
        used_control,
    ),
    "parts": (
        {
            "key": {"task": "t", "time": 5, "part": [7, 0]},
            "write": 7,
            "parts": 1,
            "crc32": zlib.crc32(b"state"),
            "job": ["j", "1"],
        },
        used_parts,
    ),
}


NAMED = ("the job's record of", "not a record of adopted changelogs", "ckpt[0]@12: ", str(SSP), "state checkpoints: ")


@pytest.mark.parametrize("record", RECORDS)
@given(data=st.data())
def test_any_record_of_a_job_is_one_or_an_error_that_names_it(record, data):
    written, use = RECORDS[record]
    use(written)
    found = json.loads(data.draw(mutations(json.dumps(written).encode())))
    refusal = str(SSP)
    try:
        use(found)
    except SamzapyError as error:
        refusal = str(error)
    assert refusal.startswith(NAMED)


def test_an_input_whose_name_is_no_text_is_refused():
    with pytest.raises(RestoreError, match="the job's record of its inputs cannot be read"):
        planner.from_json({"inputs": {"kafka.\ud800": {"first": 2, "grouped": 2, "last": 4}}})


@given(mutations(SnapshotIndex(MARKER, {"a.sst": SnapshotFile("ab", 3)}).to_bytes().partition(b"\n")[2]))
def test_any_body_of_an_index_is_one_or_a_value_error(body):
    digest = hashlib.blake2b(body, digest_size=20).hexdigest().encode()
    try:
        read = SnapshotIndex.from_bytes(digest + b"\n" + body)
    except ValueError:
        return
    assert all("/" not in name and type(file.size) is int and file.size >= 0 for name, file in read.files.items())
    assert SnapshotIndex.from_bytes(read.to_bytes()) == read
