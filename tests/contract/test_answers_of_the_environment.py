"""What surrounds a job answers slowly, with nothing, with a part, or with what was true before: one table of
adapters."""

import os
import shutil
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest
import urllib3
from confluent_kafka import KafkaError
from jobs.job_models import job_model
from rigs.store_rig import local_files, store_job

from samzapy.api.stream import SystemStreamPartition as Ssp
from samzapy.api.system import OffsetRange, OutgoingRecord, StreamSpec, SystemSettings, change_columns
from samzapy.config.stores import StoreConfig
from samzapy.container.side_inputs import SideInputRestore, SideInputs
from samzapy.coordinator import client as client_module
from samzapy.coordinator.client import CoordinatorClient, HttpLease
from samzapy.coordinator.wire import JobSpec, Registration
from samzapy.errors import EnvironmentFailure, ProducerError, RetriableError, TaskMigrated
from samzapy.storage.backup.folder import open_folder
from samzapy.storage.backup.snapshot import SnapshotUploader, newest_snapshot
from samzapy.storage.local.marker import Acceptance, Marker, StoreIdentity
from samzapy.system.clients import system_factory
from samzapy.system.kafka.admin import KafkaAdmin
from samzapy.system.kafka.client import Connection
from samzapy.system.kafka.gate import Gate
from samzapy.system.kafka.queue import NativeQueue, ReportedQueue
from samzapy.system.local.factory import LocalConsumer
from samzapy.testing import ManualClock, open_store

FULL = KafkaError._QUEUE_FULL
CHANGES = [(b"k%d" % number, b"v") for number in range(10)]


# Logs: a poll that ends at its bytes, at its records, with nothing


def local_reads(path, most_bytes):
    settings = SystemSettings("s", "samzapy.system.local:LocalSystemFactory", properties={"path": str(path / "log.db")})
    return reads_of(settings, most_bytes)


def memory_reads(path, most_bytes):
    settings = SystemSettings(
        "s", "samzapy.system.local.factory:MemorySystemFactory", properties={"cluster": str(path)}
    )
    return reads_of(settings, most_bytes)


def reads_of(settings, most_bytes):
    factory = system_factory(settings)
    consumer = LocalConsumer(factory.log(settings), most_bytes)
    return factory.admin(settings, "c"), factory.producer(settings, "c"), consumer.poll, consumer


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
        consumer.start({Ssp("s", "in", partition): 0 for partition in values})
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

    def put(self, stream, first, number, keys, values, times, headers):
        while first < len(keys) and self.room:
            self.taken.append(keys[first])
            first, self.room = first + 1, 0
        return first, FULL if first < len(keys) else 0

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
    made = queue(client, Connection("kafka", "somewhere", clock=clock), client.serve)
    made._known = lambda stream, partition: partition
    if rooms == len(CHANGES):
        made.send(change_columns("t", 0, CHANGES))
    else:
        with pytest.raises(ProducerError, match="stayed full for 60 s"):
            made.send(change_columns("t", 0, CHANGES))
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
    assert (uploaded[0], again[0]) == (1, 0 if there == "whole" else 1)
    assert newest_snapshot(folder, tmp_path / "store", lambda marker: None).changelog_offset == 2
    assert (tmp_path / "store" / "data").read_bytes() == b"x" * 1_000


# Side inputs: a store is as of now once a poll has returned nothing


class Filler(SideInputRestore):
    """Counts what it takes, and when it is as of now."""

    def __init__(self, ssp):
        self.spans = self.positions = {ssp: 0}
        self.taken, self.as_of = 0, []

    def accept(self, batch):
        self.taken += len(batch.offsets)

    def caught_up(self):
        self.as_of.append(self.taken)

    def keep(self):
        pass

    def pass_holes(self, ssp, position):
        pass


def test_a_store_that_is_behind_is_not_as_of_now(tmp_path):
    settings = SystemSettings(
        "s", "samzapy.system.local.factory:MemorySystemFactory", properties={"cluster": str(tmp_path)}
    )
    factory, ssp = system_factory(settings), Ssp("s", "side", 0)
    factory.admin(settings, "c").create(StreamSpec("side", 1))
    producer = factory.producer(settings, "c")
    producer.send([OutgoingRecord("side", b"k", b"v", 0)] * 5_000)
    producer.flush()
    clock, filler = ManualClock(), Filler(ssp)
    side = SideInputs([filler], lambda system: factory.consumer(settings, "c"), clock, 60_000)
    for _ in range(8):
        clock.advance(1.0)
        side.poll()
    side.close()
    assert set(filler.as_of) == {5_000}


# A store that is written faster than the least sweep


def test_a_sweep_keeps_up_with_any_rate_of_writing(tmp_path):
    clock = ManualClock()
    below = {"factory": "inmemory", "key.serde": "string", "msg.serde": "string", "rocksdb.ttl.ms": "3000"}
    with open_store(store_job(below), "s", tmp_path, clock) as opened:
        for commit in range(12):
            opened.store.put_all({f"{number % 97:02}-{commit:03}-{number}": "v" for number in range(3_000)})
            opened.commit()
            clock.advance(1.0)
        removed = opened.store.metrics()["expired-removed"]
    assert removed >= 3_000 * 12 / 2


class Metadata:
    """Kafka's admin client; each description of topic `t` has the next of `leaders`, and then the last for ever."""

    def __init__(self, clock, leaders):
        self.poll, self.leaders = clock.advance, leaders
        self.list_topics = lambda *_, **__: SimpleNamespace(brokers={1: "one", 2: "two"})
        self.create_topics = self.delete_topics = lambda *_, **__: {"t": settled(None)}
        self.describe_configs = lambda resources, **_: {resource: settled({}) for resource in resources}
        self.list_offsets = lambda asked, **_: {at: settled(SimpleNamespace(offset=0)) for at in asked}

    def describe_topics(self, *_, **__):
        leaders, *self.leaders = self.leaders if len(self.leaders) > 1 else self.leaders * 2
        found = [SimpleNamespace(leader=SimpleNamespace(id=leader), replicas=[1]) for leader in leaders]
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        topic = SimpleNamespace(partitions=found, topic_id="id", authorized_operations=None)
        return {"t": settled(topic if found else unknown)}


def settled(result):
    future = Future()
    future.set_result(result)
    return future


@pytest.mark.parametrize(
    ("call", "leaders", "found"),
    [
        ("create", [[], [1], [1, -1], [1, 2]], True),
        *(("create", [still], "has no leaders after") for still in ([], [1], [1, -1])),
        ("describe", [[1, 2], [1, 2], [], [], [1, 2]], 2),
        ("delete", [[1, 2], [1, 2], [1, 2], []], None),
        ("delete", [[1, 2]], "is still there after"),
    ],
)
def test_kafkas_admin_waits_for_metadata_that_are_behind(monkeypatch, call, leaders, found):
    clock = ManualClock()
    client = Metadata(clock, leaders)
    monkeypatch.setattr(Connection, "handle", lambda *_: client)
    admin = KafkaAdmin(Connection("s", "here:9092", {}, Gate("here:9092", clock, clock.advance), clock))
    with pytest.raises(EnvironmentFailure, match=found) if isinstance(found, str) else nullcontext():
        answer = admin.delete("t") if call == "delete" else admin.create(StreamSpec("t", 2))
        answer = admin.describe("t").partitions if call == "describe" else answer
        assert (answer, client.leaders) == (found, leaders[-1:])


STORE = StoreIdentity("job-1", "s", 0, "t")


def opened_files(base, refuse=lambda marker: None):
    return local_files(base).open_kept(refuse)


@pytest.mark.parametrize("part", [0.5, 0.0, None])
def test_a_store_with_part_of_a_file_is_as_of_its_marker(tmp_path, part):
    whole, found = tmp_path / "whole", set()
    with closing(opened_files(whole).engine) as engine:
        for offset in range(3):
            engine.write({b"%d" % offset: b"v" * 5_000}, Marker(STORE, offset, 1).to_bytes())
            engine.flush()
    for file in [path.relative_to(whole) for path in whole.rglob("*") if path.is_file()]:
        shutil.copytree(whole, tmp_path / file.name)
        cut = tmp_path / file.name / file
        cut.unlink() if part is None else os.truncate(cut, int(cut.stat().st_size * part))
        local = opened_files(tmp_path / file.name)
        marked = -1 if local.marker is None else local.marker.changelog_offset
        found.add(marked)
        with closing(local.engine):
            assert [bool(local.engine.get(b"%d" % offset)) for offset in range(3)] == [n <= marked for n in range(3)]
        assert local.reason or not (cut.suffix == ".sst" or (cut.name.startswith("MANIFEST") and not part))
    assert {-1, 2} <= found
    accepted = Acceptance(StoreConfig("s", "rocksdb"), STORE, OffsetRange(0, 2), 0, ManualClock())
    with closing(opened_files(whole, accepted.misfit).engine) as engine:
        assert engine.get(b"0") is None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, r"does not answer \(ReadTimeoutError"),
        (b"0\r\n\r\n", "unreadable answer"),
        (b'20\r\n\r\n{"epoch": 9', r"does not answer \(ProtocolError"),
        (b'11\r\n\r\n{"epoch": 9', "unreadable answer"),
        (b"1\r\n\r\n5", "epoch 8 was seen"),
    ],
)
def test_a_lease_takes_only_whole_answers_of_its_own_time(monkeypatch, answer, error):
    def serve():
        with closing(listening.accept()[0]) as connection:
            connection.settimeout(20)
            connection.recv(65_536)
            if answer is None:
                while connection.recv(65_536):
                    pass  # until the client has gone
            else:
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + answer)

    if answer is None:
        monkeypatch.setattr(client_module, "_PATIENCE", urllib3.Timeout(0.1))
    with closing(socket.create_server(("127.0.0.1", 0))) as listening, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        client = CoordinatorClient(f"http://127.0.0.1:{listening.getsockname()[1]}", "token")
        lease = HttpLease(client, "0", Registration.of(JobSpec(job_model(), {}), version="1", epoch=7, lease_s=15.0))
        with closing(client), pytest.raises((RetriableError, TaskMigrated), match=error):
            lease.outgrow(8)
        served.result(60)
    assert lease.epoch == 7
