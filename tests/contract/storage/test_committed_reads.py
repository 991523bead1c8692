"""What other threads see of an engine, and of a task's stores: committed entries, all of one commit, and never more."""

import threading
from contextlib import closing, nullcontext
from itertools import pairwise

import pytest
from jobs.memory_job import MemoryJob

from samzapy import failpoints
from samzapy.api.engine import EngineSettings
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.container.supervision.watch import ContainerProcess
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import TaskFailed
from samzapy.queries.committed import Question
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


def read(engine):
    with closing(engine.snapshot()) as snapshot, snapshot.iterate(None, None) as pairs:
        return list(pairs), snapshot.marker()


def test_a_reader_beside_the_writer_never_sees_half_a_write(engine):
    written, rounds = [b"k%02d" % n for n in range(40)], 300
    engine.write(dict.fromkeys(written, b"0"), b"0")
    failures, done = [], threading.Event()

    def read_on():
        while not done.is_set():
            found, marker = read(engine)
            if {value for _, value in found} != {marker} or len(found) != len(written):
                failures.append((found, marker))

    reader = threading.Thread(target=read_on)
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
    """A running container whose stores are asked at fail points, as another thread may ask."""

    def __init__(self, job, **overrides):
        config = load_job(job.flat | {"job.query.enabled": "true"} | overrides)
        prepared = prepare(config, until_end=True)
        (model,) = prepared.model.containers
        coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 5.0)
        lease = LocalLease(coordinator, "0")

        def serve(*parts):
            self._stores = parts[-1]
            return nullcontext()

        process = ContainerProcess(serve_port=serve)
        self.container = build_container(config, model, lease, ends=prepared.ends, process=process)
        self.seen = []

    def ask(self):
        answer = self._stores.answer(Question("counts", None, None, 1_000, NO_LIMIT))
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
