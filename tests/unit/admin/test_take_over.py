"""Two runs of one job side by side, as two drivers would be, on the memory system and in this process."""

import threading
import uuid
from collections import Counter

import pytest

from samzapy import OutgoingMessageEnvelope, StreamTask, SystemStream, SystemStreamPartition, WindowableTask
from samzapy.api.checkpoint import CheckpointManager
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import manager_for
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import Ownership, this_run
from samzapy.errors import JobTakenOver, SamzapyError
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import job_clients
from samzapy.system.factories import system_factory

GUARANTEES = [
    pytest.param("at-most-once", marks=pytest.mark.slow),
    "at-least-once",
    pytest.param("effectively-once", marks=pytest.mark.slow),
    "exactly-once",
]
DEADLINE_S = 60.0


class Echo(StreamTask, WindowableTask):
    """Its window makes that there is something to commit at all times."""

    def window(self, collector, coordinator):
        pass

    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), envelope.message, key=envelope.key))


class Run:
    """One start of the job in a thread; `reached` counts what it has processed, over its statuses."""

    def __init__(self, prepared):
        self._prepared = prepared
        self._seen = threading.Condition()
        self._processed = 0
        self._commits = 0
        self.failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def committed(self, processed):
        """Wait until so many messages are processed, and a commit was made after that."""
        with self._seen:
            assert self._seen.wait_for(lambda: self._processed >= processed, DEADLINE_S), self.failure
            commits = self._commits
            assert self._seen.wait_for(lambda: self._commits > commits, DEADLINE_S), self.failure

    def join(self):
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.failure

    def _run(self):
        try:
            LocalRunner().run(self._prepared, RunOptions(on_status=self._on_status))
        except SamzapyError as failure:
            self.failure = failure

    def _on_status(self, status):
        with self._seen:
            self._processed, self._commits = status.processed, status.commits
            self._seen.notify_all()


class Scene:
    def __init__(self, guarantee, **keys):
        self.flat = {
            "job.name": "twice",
            "job.default.system": "sys",
            "job.spark.lease.ms": "1500",
            "task.class": f"{__name__}:Echo",
            "task.inputs": "sys.in",
            "task.commit.ms": "50",
            "task.window.ms": "50",
            "task.guarantee": guarantee,
            "systems.sys.samza.factory": "memory",
            "systems.sys.cluster": uuid.uuid4().hex,
            "systems.sys.default.stream.samza.offset.default": "oldest",
            **keys,
        }
        settings = load_job(self.flat).systems["sys"]
        factory = system_factory(settings)
        self.producer = factory.producer(settings, "test")
        self._consumer = lambda: factory.consumer(settings, "test")
        self.admin = factory.admin(settings, "test")
        for stream in ("in", "out"):
            self.admin.create(StreamSpec(stream, 2))
        self.sent = 0

    def prepare(self, **options):
        return prepare(load_job(self.flat), **options)

    def send(self, count):
        numbers = range(self.sent, self.sent + count)
        self.producer.send([OutgoingRecord("in", b"k", b"%d" % n, n % 2) for n in numbers])
        self.producer.flush()
        self.sent = numbers.stop

    def outputs(self):
        ssps = [SystemStreamPartition("sys", "out", n) for n in range(2)]
        ranges, consumer, found = self.admin.offsets(ssps), self._consumer(), Counter()
        for ssp in ssps:
            consumer.register(ssp, ranges[ssp].oldest)
        consumer.start()
        while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
            for batch in consumer.poll(0.1, 5_000):
                found.update(map(int, batch.values))
        consumer.close()
        return found


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_second_start_takes_the_job_over_and_the_first_ends_for_good(guarantee):
    scene = Scene(guarantee)
    scene.send(100)
    first = Run(scene.prepare())
    first.committed(100)
    second = Run(scene.prepare())
    failure = first.join()
    assert isinstance(failure, JobTakenOver)
    assert failure.exit_code == 1
    assert str(failure).startswith("another run of job 'twice' (started at ")
    assert str(failure).endswith(" has taken over")
    scene.send(100)
    second.committed(100)
    third = Run(scene.prepare(until_end=True))
    assert third.join() is None
    assert isinstance(second.join(), JobTakenOver)
    assert scene.outputs() == Counter(range(200))


def test_a_run_that_restarts_after_it_was_fenced_does_not_fence_its_successor_for_ever():
    scene = Scene("exactly-once")
    first = Run(scene.prepare())
    second = Run(scene.prepare())
    # Both have work at all times, so each fence is noticed at once.
    for _ in range(5):
        scene.send(20)
    second.committed(1)
    assert isinstance(first.join(), JobTakenOver)
    assert Run(scene.prepare(until_end=True)).join() is None
    assert scene.outputs() == Counter(range(100))


def test_a_container_that_starts_for_a_run_that_is_no_longer_the_owner_lets_go_before_it_restores():
    scene = Scene("exactly-once")
    scene.send(10)
    outdated = scene.prepare(until_end=True)
    scene.prepare(until_end=True)
    with pytest.raises(JobTakenOver, match="another run of job 'twice'"):
        LocalRunner().run(outdated, RunOptions())
    assert scene.outputs() == Counter()


def test_the_owner_is_the_newest_start_and_a_container_of_no_run_has_none():
    scene = Scene("at-least-once")
    config = load_job(scene.flat)
    run_id = scene.prepare().run_id
    clients = job_clients(config, "test")
    checkpoints: CheckpointManager = manager_for(config, clients)
    Ownership.of(config, run_id).check(checkpoints)
    Ownership.of(config, None).check(checkpoints)
    newer = this_run()
    checkpoints.write_owner(newer)
    with pytest.raises(JobTakenOver, match=f"on {newer.host}, pid {newer.pid}"):
        Ownership.of(config, run_id).check(checkpoints)
    Ownership.of(config, newer.id).check(checkpoints)
    Ownership.of(config, None).check(checkpoints)
    checkpoints.close()
    clients.close()


def test_without_checkpoints_every_run_starts_at_the_defaults_and_nobody_owns_the_job():
    scene = Scene("at-least-once", **{"task.checkpoint.factory": "none"})
    scene.send(10)
    for _ in range(2):
        assert Run(scene.prepare(until_end=True)).join() is None
    assert scene.outputs() == Counter(dict.fromkeys(range(10), 2))
    assert not [name for name in scene.admin.list_streams() if "checkpoint" in name]
