"""What surrounds a job answers slowly, with nothing, with a part, or with what was true before: one table of
adapters."""

import pytest
from confluent_kafka import KafkaError

from samzapy.api.stream import SystemStreamPartition as Ssp
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.container.side_inputs import SideInputRestore, SideInputs
from samzapy.errors import ProducerError
from samzapy.storage.backup import newest_snapshot, open_folder
from samzapy.storage.backup.snapshot import SnapshotUploader
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.system.embedded.consumer import LogConsumer
from samzapy.system.factories import system_factory
from samzapy.system.kafka.client import ClientErrors
from samzapy.system.kafka.queue import NativeQueue, ReportedQueue
from samzapy.system.local.database import local_settings
from samzapy.system.local.reader import LocalReader
from samzapy.system.memory.cluster import MemoryCluster
from samzapy.testing import ManualClock, open_store

FULL = KafkaError._QUEUE_FULL
CHANGES = [(b"k%d" % number, b"v") for number in range(10)]


# Logs: a poll that ends at its bytes, at its records, with nothing


def local_reads(path, most_bytes):
    settings = SystemSettings("s", "samzapy.system.local:LocalSystemFactory", properties={"path": str(path / "log.db")})
    factory = system_factory(settings)
    consumer = LogConsumer("s", lambda: LocalReader(local_settings(settings), ManualClock(), most_bytes))
    return factory.admin(settings, "c"), factory.producer(settings, "c"), consumer.poll, consumer


def memory_reads(path, most_bytes):
    settings = SystemSettings("s", "samzapy.system.memory:MemorySystemFactory", properties={"cluster": str(path)})
    factory = system_factory(settings)
    cluster, positions = MemoryCluster.named(str(path)), {}

    def poll(_, most):
        if not positions:
            positions.update({Ssp("s", "in", partition): 0 for partition in range(2)})
        found = cluster.fetch(list(positions.items()), most, most_bytes)
        positions.update({ssp: fetch.position for ssp, fetch in found.items()})
        return [fetch.batch for fetch in found.values() if fetch.batch is not None]

    return factory.admin(settings, "c"), factory.producer(settings, "c"), poll, None


@pytest.mark.parametrize("reads", [local_reads, memory_reads])
@pytest.mark.parametrize(("most_bytes", "most_records"), [(1, 1_000), (5_000, 1_000), (1 << 20, 7), (1 << 20, 10_000)])
def test_polls_that_end_anywhere_return_every_record_once(tmp_path, reads, most_bytes, most_records):
    admin, producer, poll, consumer = reads(tmp_path, most_bytes)
    admin.create(StreamSpec("in", 2))
    values = {partition: [b"%d" % number + b"x" * (number % 90) for number in range(700)] for partition in range(2)}
    for partition, own in values.items():
        producer.send([OutgoingRecord("in", None, value, partition) for value in own])
    producer.flush()
    if consumer is not None:
        for partition in values:
            consumer.register(Ssp("s", "in", partition), 0)
        consumer.start()
    found = {partition: [] for partition in values}
    for _ in range(2_000):
        batches = poll(0.0, most_records)
        for batch in batches:
            found[batch.ssp.partition] += batch.values
        if not batches and all(len(found[partition]) == len(values[partition]) for partition in values):
            break
    assert found == values
    for client in (admin, producer, *([consumer] if consumer else [])):
        client.close()


# Kafka's queue: full and moving, full and still


class SlowClient:
    """Has room for one more record after each wait of `wait_s`, for `rooms` of them."""

    def __init__(self, clock, wait_s, rooms):
        self.clock, self.wait_s, self.rooms, self.room, self.taken = clock, wait_s, rooms, 0, []

    def serve(self, timeout_s):
        self.clock.advance(self.wait_s if timeout_s else 0.0)
        if timeout_s and self.rooms:
            self.room, self.rooms = 1, self.rooms - 1

    def put_changes(self, stream, partition, first, changes, headers):
        while first < len(changes) and self.room:
            self.taken.append(changes[first][0])
            first, self.room = first + 1, 0
        return first, FULL if first < len(changes) else 0

    def produce(self, stream, value, key, partition, report):
        if not self.room:
            raise BufferError
        self.taken.append(key)
        self.room = 0


def native(client, *others):
    return NativeQueue(client, client, *others)


@pytest.mark.parametrize("queue", [native, ReportedQueue])
@pytest.mark.parametrize("rooms", [len(CHANGES), 4, 0])
def test_a_full_queue_is_given_up_only_if_it_stands_still(queue, rooms):
    clock = ManualClock()
    client = SlowClient(clock, 40.0, rooms)
    made = queue(client, {}, ClientErrors("kafka", "somewhere"), client.serve, clock)
    made._known = lambda stream, partition: partition
    if rooms == len(CHANGES):
        made.send_changes("t", 0, CHANGES, None)
    else:
        with pytest.raises(ProducerError, match="stayed full for 60 s"):
            made.send_changes("t", 0, CHANGES, None)
    assert client.taken == [key for key, _ in CHANGES][: len(client.taken)]
    assert len(client.taken) == rooms


# A backup folder: a whole file, half of one, an empty one, none


@pytest.mark.parametrize("there", ["whole", "half", "empty", "none"])
def test_an_upload_trusts_only_whole_files(tmp_path, there):
    folder = open_folder((tmp_path / "backup").as_uri(), {}, "job-1", "s", "Partition_0")
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    (directory / "data").write_bytes(b"x" * 1_000)
    uploaded = SnapshotUploader(folder, 3).upload(directory, Marker(StoreIdentity("job-1", "s", 0, "t"), 1, 1))
    (stored,) = (tmp_path / "backup").rglob("files/*")
    left = {"whole": 1_000, "half": 500, "empty": 0}.get(there)
    stored.unlink() if left is None else stored.write_bytes(b"x" * left)
    again = SnapshotUploader(folder, 3).upload(directory, Marker(StoreIdentity("job-1", "s", 0, "t"), 2, 2))
    assert (uploaded.files, again.files) == (1, 0 if there == "whole" else 1)
    assert newest_snapshot(folder, tmp_path / "store", lambda marker: None).changelog_offset == 2
    assert (tmp_path / "store" / "data").read_bytes() == b"x" * 1_000


# Side inputs: a store is as of now once a poll has returned nothing


class Filler(SideInputRestore):
    """Counts what it takes, and when it is as of now."""

    def __init__(self, ssp):
        self.spans = self.positions = {ssp: 0}
        self.taken, self.as_of = 0, []

    def take(self, batch, bound=None):
        self.taken += len(batch.offsets)

    def caught_up(self):
        self.as_of.append(self.taken)

    def keep(self):
        pass

    def pass_holes(self, ssp, position):
        pass


def test_a_store_that_is_behind_is_not_as_of_now(tmp_path):
    settings = SystemSettings("s", "samzapy.system.memory:MemorySystemFactory", properties={"cluster": str(tmp_path)})
    factory, ssp = system_factory(settings), Ssp("s", "side", 0)
    factory.admin(settings, "c").create(StreamSpec("side", 1))
    producer = factory.producer(settings, "c")
    producer.send([OutgoingRecord("side", b"k", b"v", 0)] * 5_000)
    producer.flush()
    clock, filler = ManualClock(), Filler(ssp)
    side = SideInputs([filler], lambda system: factory.consumer(settings, "c"), clock, 60_000)
    for _ in range(8):
        clock.advance(1.0)
        side.follow(clock.monotonic())
    side.close()
    assert set(filler.as_of) == {5_000}


# A store that is written faster than the least sweep


def test_a_sweep_keeps_up_with_any_rate_of_writing(tmp_path):
    below = {"factory": "inmemory", "key.serde": "string", "msg.serde": "string", "rocksdb.ttl.ms": "3000"}
    job = {
        "job.name": "swept",
        "task.class": "some.module:Task",
        "task.inputs": "memory.in",
        "systems.memory.samza.factory": "memory",
        **{f"stores.s.{key}": value for key, value in below.items()},
    }
    clock = ManualClock()
    with open_store(job, "s", tmp_path, clock) as opened:
        for commit in range(12):
            opened.store.put_all({f"{number % 97:02}-{commit:03}-{number}": "v" for number in range(3_000)})
            opened.commit()
            clock.advance(1.0)
        removed = opened.store.metrics()["expired-removed"]
    assert removed >= 3_000 * 12 / 2
