"""Several stores of a container, restored side by side."""

import threading

import pytest

from samzapy.api.engine import EngineSettings
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec, SystemSettings, change_columns
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import StoreError
from samzapy.storage.changelog import gathering
from samzapy.storage.changelog import restore as restore_module
from samzapy.storage.changelog.restore import RestoreStopped, StoreRestore, run_restores
from samzapy.storage.changelog.topic import Tail
from samzapy.storage.kv import InMemoryStorageEngineFactory
from samzapy.storage.local.files import is_empty
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.system.memory import MemoryCluster, MemorySystemFactory

RECORDS = 1_000
POLLED = 100
LONG_S = 60.0
InMemoryEngine = type(InMemoryStorageEngineFactory().open(None, EngineSettings("s")))


class Log:
    """A changelog with some partitions of `RECORDS` different keys each."""

    def __init__(self, partitions):
        MemoryCluster.reset_all()
        self._factory, self._settings = MemorySystemFactory(), SystemSettings("log", "memory")
        self._factory.admin(self._settings, "test").create(StreamSpec("s", partitions, {"cleanup.policy": "compact"}))
        producer = self._factory.producer(self._settings, "test")
        for number in range(partitions):
            producer.send_columns(change_columns("s", number, [(b"k%d" % n, b"%d" % number) for n in range(RECORDS)]))
        producer.flush()
        producer.close()

    def run(
        self,
        engines,
        *,
        bounds=None,
        chunk_bytes=1 << 20,
        on_progress=None,
        should_stop=lambda: False,
        clock=SYSTEM_CLOCK,
        any_thread=True,
    ):
        restores = [
            StoreRestore(
                engine,
                StoreIdentity("job-1", "s", number, "t"),
                Tail(SystemStreamPartition("log", "s", number), 0, RECORDS if bounds is None else bounds[number]),
                chunk_bytes,
                any_thread=any_thread,
            )
            for number, engine in enumerate(engines)
        ]
        consumer = self._factory.consumer(self._settings, "test")
        try:
            return run_restores(restores, consumer, clock, on_progress, poll_records=POLLED, should_stop=should_stop)
        finally:
            consumer.close()


@pytest.fixture
def log():
    yield Log
    MemoryCluster.reset_all()


def test_stores_are_finished_side_by_side(log):
    together = threading.Barrier(2)

    class Engine(InMemoryEngine):
        def load(self, changes, marker):
            together.wait(LONG_S)  # passes only if the other store is at the same place
            super().load(changes, marker)

    engines = [Engine("s"), Engine("s")]
    read = log(2).run(engines)
    assert [found.records for found in read.values()] == [RECORDS, RECORDS]
    for number, engine in enumerate(engines):
        assert engine.get(b"k999") == b"%d" % number
        assert Marker.from_bytes(engine.marker()).changelog_offset == RECORDS - 1


def test_stores_that_are_restored_together_stay_within_the_memory_of_one(log, monkeypatch):
    most, sizes = [], {}
    is_full = gathering.SortedRecords.is_full

    def noted(self, memory_bytes):
        sizes[id(self)] = self.size
        most.append(sum(sizes.values()))
        full = is_full(self, memory_bytes)
        if full:
            del sizes[id(self)]
        return full

    monkeypatch.setattr(gathering.SortedRecords, "is_full", noted)
    monkeypatch.setattr(restore_module, "_FEW", 0)
    limit = 200_000
    engines = [InMemoryEngine("s") for _ in range(4)]
    log(4).run(engines, chunk_bytes=limit)
    assert max(most) > limit // 4
    # A buffer is full only once the records of a poll are in it.
    assert max(most) <= limit + 4 * 150 * POLLED
    assert all(engine.get(b"k0") is not None for engine in engines)


def test_when_one_store_fails_the_others_have_ended_before_its_error_is_raised(log):
    failed, ended = threading.Event(), []

    class Failing(InMemoryEngine):
        def load(self, changes, marker):
            failed.set()
            raise StoreError("disk full")

    class Other(InMemoryEngine):
        def load(self, changes, marker):
            assert failed.wait(LONG_S)
            super().load(changes, marker)
            ended.append(self)

    other = Other("s")
    with pytest.raises(StoreError, match="disk full"):
        log(2).run([other, Failing("s")])
    assert ended == [other]


def test_a_stop_is_heard_while_stores_are_finished_and_ends_them_first(log):
    at_work, stopped, ended = threading.Event(), threading.Event(), []

    class Engine(InMemoryEngine):
        def load(self, changes, marker):
            at_work.set()
            assert stopped.wait(LONG_S)
            ended.append(self)

    def should_stop():
        if at_work.is_set():
            stopped.set()
        return at_work.is_set()

    with pytest.raises(RestoreStopped):
        log(2).run([Engine("s"), Engine("s")], should_stop=should_stop)
    assert ended


def test_a_load_that_is_given_up_leaves_the_store_as_it_was(tmp_path):
    engine = RocksDbStorageEngineFactory().open(tmp_path / "s", EngineSettings("s"))
    gathered = gathering.SortedRecords()
    gathered.add([b"k%d" % n for n in range(200)], [b"v"] * 200)
    gathered.give_up()
    with pytest.raises(StoreError, match="given up"):
        engine.load(gathered.parts(), b"marker")
    assert is_empty(engine)
    assert engine.marker() is None
    engine.close()
    assert not list((tmp_path / "s").glob("*.sst"))


def test_engines_that_are_bound_to_their_thread_are_finished_there(log):
    threads = set()

    class Bound(InMemoryEngine):
        def load(self, changes, marker):
            threads.add(threading.current_thread())
            super().load(changes, marker)

    log(2).run([Bound("s"), Bound("s")], any_thread=False)
    assert threads == {threading.current_thread()}
