"""What other threads see of an engine, and of a task's stores: committed entries, all of one commit, and never more."""

import threading
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs.memory_job import MemoryJob

from samzapy import failpoints
from samzapy.api.engine import EngineSettings, StorageEngine
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.container.supervision.watch import ContainerProcess
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import StoreError, TaskFailed
from samzapy.queries.exchange import Exchange, LocalQuestions
from samzapy.queries.questions import Question
from samzapy.runner.prepare import prepare
from samzapy.storage.kv import InMemoryStorageEngineFactory
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory

FACTORIES = [InMemoryStorageEngineFactory, RocksDbStorageEngineFactory]
NO_LIMIT = 2**31


def opened(kind, folder):
    factory = kind()
    return factory.open(folder / "store" if factory.persistent else None, EngineSettings("s"))


@pytest.fixture(params=FACTORIES, ids=["memory", "rocksdb"])
def engine(request, tmp_path):
    made = opened(request.param, tmp_path)
    yield made
    made.close()


def test_a_new_engine_shows_no_entries_and_no_marker(engine):
    page = engine.read_committed(None, None, 10, NO_LIMIT)
    assert (list(page.pairs), page.marker, page.more) == ([], None, False)


def test_entries_come_with_the_marker_of_their_write(engine):
    engine.write({b"a": b"1", b"b": b"2"}, b"first")
    engine.write({b"a": None, b"c": b"3"}, b"second")
    page = engine.read_committed(None, None, 10, NO_LIMIT)
    assert (list(page.pairs), page.marker, page.more) == ([(b"b", b"2"), (b"c", b"3")], b"second", False)


def test_one_key_is_read_with_the_marker_whether_it_is_there_or_not(engine):
    engine.write({b"a": b"1", b"a\x00": b"2", b"b": b"3"}, b"m")
    for key, expected in ((b"a", [(b"a", b"1")]), (b"aa", []), (b"b", [(b"b", b"3")]), (b"c", [])):
        page = engine.read_committed(key, key + b"\x00", 5, NO_LIMIT)
        assert (list(page.pairs), page.marker, page.more) == (expected, b"m", False)


def test_a_page_ends_at_its_number_of_entries_and_says_that_more_follow(engine):
    engine.write({b"%d" % n: b"v" for n in range(5)}, b"m")
    page = engine.read_committed(b"1", None, 2, NO_LIMIT)
    assert ([key for key, _ in page.pairs], page.more) == ([b"1", b"2"], True)
    page = engine.read_committed(b"3", None, 2, NO_LIMIT)
    assert ([key for key, _ in page.pairs], page.more) == ([b"3", b"4"], False)


def test_a_page_ends_at_its_bytes_but_has_one_entry(engine):
    engine.write({b"%d" % n: b"v" * 100 for n in range(5)}, b"m")
    assert len(engine.read_committed(None, None, 10, 150).pairs) == 2
    page = engine.read_committed(None, None, 10, 1)
    assert (len(page.pairs), page.more) == (1, True)


def test_the_reserved_key_of_the_marker_is_no_entry(engine):
    engine.write({b"\x00": b"0", b"\x01": b"1"}, b"m")
    assert [key for key, _ in engine.read_committed(None, None, 10, NO_LIMIT).pairs] == [b"\x00", b"\x01"]


def test_a_closed_engine_is_refused(engine):
    engine.close()
    with pytest.raises(StoreError):
        engine.read_committed(None, None, 1, 1)


def test_an_engine_that_cannot_be_read_by_other_threads_refuses_in_one_line():
    with pytest.raises(StoreError, match=r"^its engine cannot be read by other threads than the task's$"):
        StorageEngine.read_committed(object(), None, None, 1, 1)


keys = st.binary(max_size=3)
writes = st.lists(st.dictionaries(keys, st.none() | st.binary(max_size=4), max_size=8), max_size=6)


@settings(max_examples=30)
@given(writes, st.none() | keys, st.none() | keys, st.integers(1, 4), st.integers(1, 12))
@pytest.mark.parametrize("kind", FACTORIES, ids=["memory", "rocksdb"])
def test_pages_put_together_are_the_range_of_a_dict(kind, tmp_path_factory, changes, lower, upper, most, most_bytes):
    engine, model = opened(kind, tmp_path_factory.mktemp("engine")), {}
    try:
        for number, each in enumerate(changes):
            engine.write(each, b"%d" % number)
            model.update(each)
        expected = sorted(
            (key, value)
            for key, value in model.items()
            if value is not None and (lower is None or lower <= key) and (upper is None or key < upper)
        )
        found, start = [], lower
        while True:
            page = engine.read_committed(start, upper, most, most_bytes)
            assert 0 < len(page.pairs) <= most or not page.more
            found += page.pairs
            if not page.more:
                break
            start = page.pairs[-1][0] + b"\x00"
        assert found == expected
        assert page.marker == (b"%d" % (len(changes) - 1) if changes else None)
    finally:
        engine.close()


def test_a_reader_beside_the_writer_never_sees_half_a_write(engine):
    written, rounds = [b"k%02d" % n for n in range(40)], 300
    engine.write(dict.fromkeys(written, b"0"), b"0")
    failures, done = [], threading.Event()

    def read():
        while not done.is_set():
            page = engine.read_committed(None, None, 100, NO_LIMIT)
            if {value for _, value in page.pairs} != {page.marker} or len(page.pairs) != len(written):
                failures.append(page)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, rounds):
        engine.write(dict.fromkeys(written, b"%d" % number), b"%d" % number)
        if number % 50 == 0:
            # The task scans as well.
            with engine.iterate(None, None) as pairs:
                assert len(list(pairs)) == len(written)
    done.set()
    reader.join()
    assert failures == []


class Asked:
    """A running container whose stores are asked at fail points, by the thread that answers questions."""

    def __init__(self, job, **overrides):
        config = load_job(job.flat | {"job.query.enabled": "true"} | overrides)
        prepared = prepare(config, until_end=True)
        (model,) = prepared.model.containers
        coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 5.0)
        self.exchange = Exchange(coordinator.holder)
        lease = LocalLease(coordinator, "0")
        process = ContainerProcess(questions=LocalQuestions(self.exchange, "0", lambda: lease.epoch))
        self.container = build_container(config, model, lease, ends=prepared.ends, process=process)
        self.seen = []

    def ask(self):
        answer = self.exchange.ask("0", Question("counts", None, None, 1_000, NO_LIMIT)).result(30)
        assert answer.problem is None, answer
        return {entry.key.decode(): int(entry.value) for entry in answer.entries}, answer.as_of

    def look(self, point):
        self.seen.append((point, *self.ask()))


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    failpoints.disarm()


POINTS = ["commit.1", "commit.2", "commit.3", "commit.4", "commit.5a", "commit.5", "commit.6", "commit.7"]


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("factory", ["rocksdb", "inmemory"])
def test_during_a_commit_the_state_is_the_old_one_until_its_last_step(tmp_path, factory, guarantee):
    keys = {"stores.counts.factory": factory, "task.guarantee": guarantee, "task.commit.ms": "50000"}
    job = MemoryJob(tmp_path, partitions=1, **keys)
    job.send(*[(0, f"k{n % 3}", {"id": n}) for n in range(6)])
    job.send((0, "k0", {"id": 6, "do": "commit"}))
    job.send(*[(0, f"k{n % 5}", {"id": n}) for n in range(7, 20)])
    asked = Asked(job)
    # The first commit notes where the job begins; the others are that of message 6 and the last one.
    passed = dict.fromkeys(POINTS, 0)

    def look(point):
        passed[point] += 1
        if passed[point] > 1:
            asked.look(point)
        failpoints.arm(point, 1, look)

    for point in POINTS:
        failpoints.arm(point, 1, look)
    asked.container.run()
    failpoints.disarm()
    first = {"k0": 3, "k1": 2, "k2": 2}
    states = [state for _, state, _ in asked.seen]
    by_point = [(point, state) for point, state, _ in asked.seen]
    assert [point for point, _ in by_point[: len(POINTS)]] == POINTS
    assert states[:6] == [{}] * 6
    assert states[6:8] == [first] * 2
    assert states[8:14] == [first] * 6
    last = states[-1]
    assert last == job.changelog()
    assert sum(last.values()) == 20
    offsets = [as_of[0] for *_, as_of in asked.seen]
    assert all(before <= after for before, after in pairwise(offsets))
    assert offsets[7] >= 2


@pytest.mark.parametrize("factory", ["rocksdb", "inmemory"])
def test_changes_between_two_commits_are_not_seen(tmp_path, factory):
    job = MemoryJob(tmp_path, partitions=1, **{"stores.counts.factory": factory})
    job.send((0, "a", {"id": 0}), (0, "a", {"id": 1, "do": "commit"}))
    job.send(*[(0, "a", {"id": n}) for n in range(2, 9)], (0, "b", {"id": 9, "do": "fail"}))
    asked = Asked(job)
    process = job.task.process

    def looking(self, envelope, collector, coordinator):
        asked.look(envelope.offset)
        process(self, envelope, collector, coordinator)

    job.task.process = looking
    try:
        with pytest.raises(TaskFailed):
            asked.container.run()
    finally:
        job.task.process = process
    # The second message has asked for a commit, which comes after it.
    assert [state for _, state, _ in asked.seen] == [{}] * 2 + [{"a": 2}] * 8
    assert job.changelog() == {"a": 2}
