"""Stores read back from changelogs of every shape."""

from pathlib import Path

import pytest
from rigs.store_rig import LOGGED, TickingClock, store_job

from samzapy.api.engine import EngineSettings
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OffsetRange, RecordBatch, StreamSpec, SystemSettings, change_columns
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.stores import StoreConfig
from samzapy.errors import EnvironmentFailure, RestoreError, RetriableError
from samzapy.storage import store as store_module
from samzapy.storage.changelog import gathering
from samzapy.storage.changelog import restore as restore_module
from samzapy.storage.changelog.restore import StoreRestore, run_restores
from samzapy.storage.changelog.topic import Tail, check_beginning, check_end, ensure_changelog
from samzapy.storage.kv import InMemoryStorageEngineFactory
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.system.local.factory import MemoryCluster, MemorySystemFactory
from samzapy.testing import ManualClock, open_store

SSP = SystemStreamPartition("log", "s", 0)
IDENTITY = StoreIdentity("job-1", "s", 0, "t")
COMPACT = {"cleanup.policy": "compact"}


@pytest.fixture
def system():
    MemoryCluster.reset_all()
    factory, settings = MemorySystemFactory(), SystemSettings("log", "memory")

    class System:
        admin = factory.admin(settings, "test")

        def producer(self, transactional_id=None):
            return factory.producer(settings, "test", transactional_id)

        def consumer(self):
            return factory.consumer(settings, "test")

    return System()


def restored(system, start=0, chunk_bytes=1 << 20, progress=None):
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    log = system.admin.offsets([SSP])[SSP]
    restore = StoreRestore(engine, IDENTITY, Tail(SSP, max(start, log.oldest), log.upcoming), chunk_bytes)
    run_restores([restore], system.consumer(), TickingClock(10.0), progress)
    with engine.iterate(None, None) as pairs:
        return dict(pairs), Marker.from_bytes(engine.marker())


def logged(system, changes):
    system.admin.create(StreamSpec("s", 1, COMPACT))
    producer = system.producer()
    producer.send_columns(change_columns("s", 0, changes))
    producer.flush()


def test_the_last_value_of_a_key_wins_over_many_chunks(system):
    logged(system, [(b"k%d" % (n % 7), b"%d" % n if n % 5 else None) for n in range(1_000)])
    expected: dict = {}
    for n in range(1_000):
        expected[b"k%d" % (n % 7)] = b"%d" % n if n % 5 else None
    contents, marker = restored(system, chunk_bytes=100)
    assert contents == {key: value for key, value in expected.items() if value is not None}
    assert marker.changelog_offset == 999


def test_a_store_is_as_old_as_the_beginning_of_its_restore(system):
    logged(system, [(b"k%d" % n, b"v") for n in range(10)])
    clock = ManualClock(wall_ms=5_000)
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    restore = StoreRestore(engine, IDENTITY, Tail(SSP, 0, 10))
    run_restores([restore], system.consumer(), clock, lambda *_: clock.advance(600))
    assert clock.wall_ms() > 600_000
    assert Marker.from_bytes(engine.marker()) == Marker(IDENTITY, 9, 5_000)


def test_a_restore_of_records_that_are_deleted_meanwhile_may_be_repeated(system):
    logged(system, [(b"k%d" % n, b"v") for n in range(10)])
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    system.admin.delete_records(SSP, 5)
    with pytest.raises(RetriableError, match=r"log\.s\[0\]@0: the log holds offsets 5 to 10 .*; trying again reads"):
        run_restores([StoreRestore(engine, IDENTITY, Tail(SSP, 0, 10))], system.consumer(), TickingClock(10.0))


def test_a_tail_of_aborted_records_is_passed(system):
    logged(system, [(b"a", b"1")])
    producer = system.producer("writer")
    producer.init_transactions()
    producer.begin()
    producer.send_columns(change_columns("s", 0, [(b"a", b"never")]))
    producer.abort()
    contents, marker = restored(system)
    assert contents == {b"a": b"1"}
    assert marker.changelog_offset == system.admin.offsets([SSP])[SSP].upcoming - 1


def test_an_open_transaction_is_a_typed_error_that_names_position_and_bound(system):
    logged(system, [(b"a", b"1")])
    producer = system.producer("writer")
    producer.init_transactions()
    producer.begin()
    producer.send_columns(change_columns("s", 0, [(b"a", b"2")]))
    producer.flush()
    with pytest.raises(RestoreError, match=r"no progress for 60 s: log\.s\[0\] at 1 of 2"):
        restored(system)


@pytest.fixture(params=["one load", "a load per poll"])
def sorted_from_the_first_record(request, monkeypatch):
    monkeypatch.setattr(restore_module, "_FEW", 0)
    if request.param == "a load per poll":
        monkeypatch.setattr(gathering, "_ROOM", 0)
        monkeypatch.setattr(gathering, "_ROW_BYTES", 1 << 30)


@pytest.mark.usefixtures("sorted_from_the_first_record")
def test_a_long_changelog_is_sorted_on_the_way(system, tmp_path):
    changes = [(b"k%d" % (n % 700), b"%d" % n if n % 5 else None) for n in range(12_000)]
    logged(system, changes)
    engine = RocksDbStorageEngineFactory().open(tmp_path / "store", EngineSettings("s"))
    engine.write({b"k1": b"old", b"other": b"kept"}, Marker(IDENTITY, 99, 1).to_bytes())
    restore = StoreRestore(engine, IDENTITY, Tail(SSP, 100, 12_000))
    run_restores([restore], system.consumer(), TickingClock(10.0))
    with engine.iterate(None, None) as pairs:
        found = dict(pairs)
    expected = {b"k1": b"old", b"other": b"kept"} | dict(changes[100:])
    assert found == {key: value for key, value in expected.items() if value is not None}
    assert Marker.from_bytes(engine.marker()).changelog_offset == 11_999
    assert restore.records == 11_900
    engine.close()


def test_records_beyond_the_bound_are_left_out():
    engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
    restore = StoreRestore(engine, IDENTITY, Tail(SSP, 0, 2))
    restore.add(RecordBatch(SSP, [0, 1, 2], [b"a", b"b", b"c"], [b"1"] * 3, [1] * 3))
    restore.add(RecordBatch(SSP, [3], [b"d"], [b"1"], [1]))
    restore.finish(9)
    assert engine.get_all([b"a", b"b", b"c", b"d"]) == [b"1", b"1", None, None]


def test_a_record_without_a_key_is_named():
    restore = StoreRestore(InMemoryStorageEngineFactory().open(None, EngineSettings("s")), IDENTITY, Tail(SSP, 0, 9))
    with pytest.raises(RestoreError, match=r"log\.s\[0\]@4: changelog record without a key"):
        restore.add(RecordBatch(SSP, [3, 4], [b"a", None], [b"1", b"1"], [1, 1]))


def store_config(**other):
    return StoreConfig("s", "inmemory", "string", "json", changelog=SystemStream("log", "s"), **other)


def test_a_missing_changelog_is_created_compacted_and_must_fit_the_tasks(system):
    description = ensure_changelog(system.admin, store_config(changelog_delete_retention_ms=7), 4)
    assert description.partitions == 4
    assert description.config["cleanup.policy"] == "compact"
    assert description.config["delete.retention.ms"] == "7"
    assert ensure_changelog(system.admin, store_config(), 4) == description
    with pytest.raises(EnvironmentFailure, match="changelog s has 4 partitions, job has 5 tasks"):
        ensure_changelog(system.admin, store_config(), 5)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_changelog_that_forgets_is_refused(system, policy):
    system.admin.create(StreamSpec("s", 4, {"cleanup.policy": policy}))
    with pytest.raises(EnvironmentFailure, match=f"changelog s must be compact .is {policy}.: state would be lost"):
        ensure_changelog(system.admin, store_config(), 4)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_changelog_of_an_expiring_store_that_drops_records_by_size_is_refused(system, policy):
    config = {"cleanup.policy": policy, "retention.ms": "60000", "retention.bytes": "1000000"}
    system.admin.create(StreamSpec("s", 4, config))
    with pytest.raises(
        EnvironmentFailure, match=r"changelog s keeps 1000000 bytes .* \(retention\.bytes\).*: state would be lost"
    ):
        ensure_changelog(system.admin, store_config(ttl_ms=60_000), 4)


DAMAGED = SystemStreamPartition("log", "s", 3)


@pytest.mark.parametrize(("committed", "upcoming"), [(-1, 0), (6, 7), (6, 9)])
def test_a_changelog_that_reaches_to_the_checkpoint_is_accepted(committed, upcoming):
    check_end(DAMAGED, OffsetRange(0, upcoming), committed, None, "")


@pytest.mark.parametrize(("committed", "upcoming"), [(0, 0), (7, 7), (9, 7)])
def test_a_changelog_that_ends_before_the_checkpoint_is_refused_with_both_offsets(committed, upcoming):
    text = rf"changelog log\.s\[3\] ends before offset {upcoming}, the last checkpoint is at {committed}: "
    with pytest.raises(EnvironmentFailure, match=text):
        check_end(DAMAGED, OffsetRange(0, upcoming), committed, None, "")


def test_a_changelog_without_its_beginning_is_enough_for_a_task_that_has_never_committed_only():
    check_beginning(DAMAGED, OffsetRange(0, 9), 8)
    check_beginning(DAMAGED, OffsetRange(5, 9), -1)
    for committed in (0, 8):
        with pytest.raises(EnvironmentFailure, match=r"changelog log\.s\[3\] begins at offset 5 instead of 0"):
            check_beginning(DAMAGED, OffsetRange(5, 9), committed)


JOB = store_job(LOGGED)


def test_a_store_without_a_changelog_is_empty_at_each_start(tmp_path: Path):
    job = {key: value for key, value in JOB.items() if not key.endswith(".changelog")}
    with open_store(job, "s", tmp_path) as opened:
        opened.store.put("a", 1)
        opened.commit()
        assert opened.store.get("a") == 1
        opened.reopen()
        assert opened.restored.source == "nothing"
        assert opened.store.get("a") is None


def commit_each(opened, first, count):
    for n in range(first, first + count):
        opened.store.put(f"k{n}", n)
        opened.commit()


def test_a_kill_costs_no_more_records_than_may_be_unflushed(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(store_module, "FLUSH_RECORDS", 20)
    with open_store(JOB, "s", tmp_path, ManualClock()) as opened:
        for first in (0, 100, 200):
            commit_each(opened, first, 57)
            opened.crash()
            assert opened.restored.source.startswith("local store")
            assert opened.restored.records <= 20
            opened.stores.flush_engines()
            commit_each(opened, first, 4)  # too few for a flush to begin
            opened.crash()
            assert (opened.restored.source, opened.restored.records) == ("local store + changelog", 4)
        assert len(list(opened.store.all())) == 3 * 57


def together(system, partitions, records, chunk_bytes=1 << 20):
    """The restores of that many stores, with their engines; none has begun."""
    system.admin.create(StreamSpec("s", partitions, COMPACT))
    producer, engines, restores = system.producer(), [], []
    for number in range(partitions):
        producer.send_columns(change_columns("s", number, [(b"k%d" % n, b"%d" % number) for n in range(records)]))
        engines.append(InMemoryStorageEngineFactory().open(None, EngineSettings("s")))
        tail = Tail(SystemStreamPartition("log", "s", number), 0, records)
        restores.append(StoreRestore(engines[-1], StoreIdentity("job-1", "s", number, "t"), tail, chunk_bytes))
    producer.flush()
    return engines, restores


def test_stores_that_are_complete_together_take_one_call_of_their_consumer(system):
    _, restores = together(system, 20, 1)
    consumer, paused = system.consumer(), []
    consumer.pause = lambda ssps: paused.append(len(ssps))
    run_restores(restores, consumer, SYSTEM_CLOCK)
    assert paused == [20]


def test_stores_that_are_restored_together_stay_within_the_memory_of_one(system, monkeypatch):
    partitions, polled, limit = 4, 100, 200_000
    engines, restores = together(system, partitions, 1_000, limit)
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
    run_restores(restores, system.consumer(), SYSTEM_CLOCK, poll_records=polled)
    assert max(most) > limit // partitions
    # A buffer is full only once the records of a poll are in it.
    assert max(most) <= limit + partitions * 150 * polled
    assert [engine.get(b"k999") for engine in engines] == [b"%d" % n for n in range(partitions)]
