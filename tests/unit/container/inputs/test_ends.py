"""The ends of inputs: nothing from an end on is handed out, decoded or lost, in however many batches it was polled."""

from functools import partial
from types import SimpleNamespace
from uuid import uuid4

import pytest
from rigs.store_rig import Hashed

from samzapy import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, RecordBatch, StreamSpec, SystemSettings
from samzapy.config.loader import load_job
from samzapy.container.inputs.decode import Decoder
from samzapy.container.inputs.inputs import Inputs, PollLimits, RawRecords, _bootstrap
from samzapy.errors import SerdeError
from samzapy.metrics import Registry
from samzapy.serializers.documents import JsonSerde
from samzapy.system.choosers import Bootstrap, ChoosingConsumer, Portion, RoundRobin, Tiered
from samzapy.system.local.factory import LocalConsumer, MemorySystemFactory
from samzapy.testing import ManualClock

TOLERANT, COLUMNS = partial(Decoder, tolerant=True), partial(Decoder, columns=True)
IN, OTHER = (SystemStreamPartition("mem", "in", partition) for partition in (0, 1))


class SlicedConsumer(LocalConsumer):
    """Returns a partition in batches of at most 5 records, as the consumer of Kafka does with 500."""

    def poll(self, timeout_s, max_records):
        batches = super().poll(timeout_s, max_records)
        return [batch.part(start, start + 5) for batch in batches for start in range(0, len(batch.offsets), 5)]


class Rig:
    """Inputs over two partitions of a cluster of its own; `ends` by partition. With a `head`, IN is a bootstrap
    partition to there."""

    def __init__(self, ends, decoder=Decoder, *, choosing=False, head=None, decoded=None):
        self.processed, finished = {IN: 0}, set()
        settings = SystemSettings("mem", "memory", properties={"cluster": str(uuid4())})
        factory = MemorySystemFactory()
        factory.admin(settings, "test").create(StreamSpec("in", 2))
        self.producer = factory.producer(settings, "test")
        self.consumer = SlicedConsumer(factory.log(settings))
        if choosing:
            bootstrap = head and Bootstrap({IN: head}, self.processed.__getitem__, lambda left: None, finished)
            self.consumer = ChoosingConsumer(
                {"mem": self.consumer},
                Tiered([RoundRobin()]),
                {IN: 0, OTHER: 0},
                Portion(ManualClock(), 100),
                most_waiting=100,
                max_idle_s=0.01,
                bootstrap=bootstrap,
            )
        self.raw = RawRecords()
        self.raw.follow({IN: 0, OTHER: 0})
        self.inputs = Inputs(
            {"mem": self.consumer},
            {SystemStream("mem", "in"): decoder(None, JsonSerde())},
            ends,
            ManualClock(),
            PollLimits(100, 0.01, decoded),
            raw=self.raw,
            finished=finished,
        )

    def send(self, values, ssp=IN):
        self.producer.send([OutgoingRecord("in", None, value, ssp.partition) for value in values])
        self.producer.flush()

    def poll(self, ssp=IN):
        return [each.offset for of, run in self.inputs.poll(0.0).runs if of == ssp for each in run]


def started(rig):
    rig.inputs.start({IN: 0, OTHER: 0})
    return rig


@pytest.mark.parametrize("choosing", [False, True])
@pytest.mark.parametrize("decoder", [Decoder, TOLERANT, COLUMNS])
@pytest.mark.parametrize("end", [8, 10, 11])
@pytest.mark.parametrize("ends", [{}, {OTHER: 3}])
def test_no_batch_of_a_poll_has_anything_from_an_end_on(choosing, decoder, end, ends):
    rig = started(Rig({IN: end, **ends}, decoder, choosing=choosing))
    rig.send([b"1"] * 30)
    found = [offset for _ in range(5) for offset in rig.poll()]
    assert found == list(range(end))
    assert rig.inputs.take_ended() == {IN}
    assert rig.inputs.position(IN) == end


def test_an_end_that_is_set_while_the_job_runs_cuts_all_batches_of_a_poll():
    rig = started(Rig({}))
    rig.inputs.end_at({IN: 8})
    rig.send([b"1"] * 30)
    assert rig.poll() + rig.poll() == list(range(8))


@pytest.mark.parametrize("choosing", [False, True])
@pytest.mark.parametrize("end", [8, 10])
def test_a_partition_that_goes_on_after_its_end_has_lost_nothing(choosing, end):
    rig = started(Rig({IN: end}, choosing=choosing))
    rig.send([b"%d" % number for number in range(30)])
    found = rig.poll()
    rig.inputs.go_on(IN)
    found += [offset for _ in range(5) for offset in rig.poll()]
    assert found == list(range(30))
    assert rig.inputs.take_ended() == set()
    assert rig.raw.find(IN, 20) == (None, b"20")


def test_a_partition_that_ends_is_paused_only_once_it_has_more():
    rig = started(Rig({IN: 8}))
    rig.send([b"1"] * 8)
    assert (rig.poll(), rig.consumer._paused) == (list(range(8)), set())
    rig.send([b"1"])
    assert (rig.poll(), rig.consumer._paused) == ([], {IN})


def test_a_held_partition_is_held_back_until_its_release_or_end():
    rig = started(Rig({}))
    rig.inputs.hold({IN, OTHER})
    assert rig.inputs.held_back() == {IN, OTHER}
    rig.inputs.finish(IN)
    assert rig.inputs.held_back() == {OTHER}
    rig.inputs.hold(set())
    assert rig.inputs.held_back() == set()


def bootstrapping(head, sent, ends):
    """With messages in both partitions."""
    rig = started(Rig(ends, choosing=True, head=head))
    rig.send([b"1"] * sent)
    rig.send([b"1"], OTHER)
    return rig


def test_a_bootstrap_partition_has_caught_up_once_its_messages_are_done():
    rig = bootstrapping(8, 30, {IN: 8})
    assert rig.poll() == list(range(8))
    rig.processed[IN] = 7
    assert rig.poll(OTHER) == [], "a message of the bootstrap partition is in flight"
    rig.processed[IN] = 8
    assert rig.poll(OTHER) == [0]


def test_a_bootstrap_partition_is_looked_up_in_the_tasks_that_read_it_only():
    stream = {"samza.bootstrap": "true", "samza.offset.default": "oldest"}
    keys = {"job.name": "x", "task.class": "a:B", "task.inputs": "mem.in", "systems.mem.samza.factory": "memory"}
    config = load_job(keys | {f"systems.mem.streams.in.{key}": value for key, value in stream.items()})
    ssps = Hashed.many("in")
    tasks = [SimpleNamespace(offsets={ssp: 5}) for ssp in ssps]
    ends = SimpleNamespace(ends=lambda asked: dict.fromkeys(asked, 5))
    gate = _bootstrap(config, ends, {}, tasks, set(), Registry(), ManualClock())
    for ssp in ssps:
        gate.released(RecordBatch(ssp, [4], [None], [None], [0]))
    assert gate.check(lambda _: 5)
    assert Hashed.count < 50 * len(ssps)


def test_a_bootstrap_partition_that_ends_before_its_head_holds_none_back():
    rig = bootstrapping(200, 200, {})
    found = rig.poll()
    assert 0 < len(found) < 200
    rig.inputs.hold({IN})
    rig.processed[IN] = len(found)
    assert rig.poll(OTHER) == [], "a partition that is only held goes on later"
    rig.inputs.finish(IN)
    rig.processed[IN] = len(found) - 1
    assert rig.poll(OTHER) == [], "a message of the bootstrap partition is in flight"
    rig.processed[IN] = len(found)
    assert rig.poll(OTHER) == [0]


def test_a_bootstrap_partition_that_goes_on_holds_others_back_to_its_head():
    rig = bootstrapping(200, 200, {})
    found = rig.poll()
    rig.inputs.finish(IN)
    rig.inputs.go_on(IN)
    rig.processed[IN] = len(found)
    assert rig.poll(OTHER) == []


@pytest.mark.parametrize("decoder", [Decoder, TOLERANT])
def test_a_poll_is_decoded_in_parts_as_its_messages_are_taken(decoder):
    rig = started(Rig({}, decoder, decoded=2))
    rig.send([b"1", b"2", b"3", b"{", b"5", b"6", b"7"])
    ends, runs, _ = rig.inputs.poll(0.0)
    assert ends == {IN: 7}
    taken = iter(runs)
    assert [each.message for each in next(taken)[1]] == [1, 2]
    if decoder is TOLERANT:
        rest = [[each.message for each in run] for _, run in taken]
        assert rest == [[3], [b"{"], [5], [6, 7]]
        return
    with pytest.raises(SerdeError, match=r"mem\.in\[0\]@3: message"):
        next(taken)


def test_a_poll_that_is_decoded_as_a_whole_fails_before_any_of_it_is_taken():
    rig = started(Rig({}, decoded=None))
    rig.send([b"1", b"{"])
    with pytest.raises(SerdeError, match=r"mem\.in\[0\]@1: message"):
        rig.inputs.poll(0.0)
