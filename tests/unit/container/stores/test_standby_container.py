"""Standby containers and whoever takes their copies over, in one process on the memory system."""

import errno
import os
import shutil
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from jobs.memory_job import MemoryJob

from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.container.standby import StandbyContainer
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import StoreDiskFailed, Unreachable
from samzapy.job.lease import ContainerReport
from samzapy.queries.committed import Problem, Question
from samzapy.runner.prepare import prepare
from samzapy.testing import ManualClock

DEADLINE_S = 60.0


class Standby:
    """The standby of a job's only container, in a thread of its own."""

    def __init__(self, job, clock=SYSTEM_CLOCK, **overrides):
        config = load_job(job.flat | overrides)
        model = prepare(config).model
        self.coordinator = Coordinator(config.name, JobSpec(model, config.raw), 60.0)
        lease = LocalLease(self.coordinator, "0-1")
        self.container = StandbyContainer(
            config, model.container("0-1"), lease, check_s=0.05, serve_port=self._serve, clock=clock
        )
        self.report: ContainerReport | None = None
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _serve(self, *parts):
        self.stores = parts[-1]
        return nullcontext()

    def caught_up(self, records):
        """Wait until it has read, and written, so many changelog records in all."""
        for _ in range(int(DEADLINE_S / 0.05)):
            report = self.container.report("")
            if sum(report.positions.values()) >= records and report.positions == report.ends:
                return
            assert self._thread.is_alive(), self.failure
            self._thread.join(0.05)
        raise AssertionError(f"the standby did not catch up: {self.container.report('')}")

    def stop(self):
        self.container.stop()
        self._thread.join(DEADLINE_S)
        assert self.failure is None

    def _run(self):
        try:
            self.report = self.container.run()
        except Exception as failure:  # noqa: BLE001  # told by stop()
            self.failure = failure


@pytest.fixture
def job(tmp_path):
    return MemoryJob(tmp_path / "state", **{"job.standbytasks.replication.factor": "2"})


def messages(first, count, keys=50):
    return [(n % 2, f"k{n % keys}", {"id": n}) for n in range(first, first + count)]


def own_stores(tmp_path):
    return sorted((tmp_path / "state" / "counting-1" / "counts").glob("Partition_?"))


def sources(report):
    return {source for _, _, source in report.restored.values()}


def restored(report):
    return sum(records for records, _, _ in report.restored.values())


def test_a_taken_over_copy_has_only_the_tail_to_read(job, tmp_path):
    job.send(*messages(0, 400))
    job.run()
    standby = Standby(job)
    standby.caught_up(50)
    job.send(*messages(400, 60))
    job.run()
    standby.caught_up(100)
    standby.stop()
    assert standby.report.phase == "done"
    (told,) = standby.coordinator.status().standbys
    assert (told.state, told.remaining) == ("done", 0)
    job.send(*messages(460, 10))
    job.run()  # the tail: ten records that the copy has not
    for store in own_stores(tmp_path):
        shutil.rmtree(store)
    job.send(*messages(470, 30))
    report = job.run()
    assert sources(report) == {"standby + changelog"}
    assert restored(report) == 10
    counts = {key: message["count"] for key, message in job.outputs()}
    assert counts == {f"k{n}": 10 for n in range(50)}
    assert job.changelog() == counts


@pytest.mark.parametrize(
    ("step", "left", "copy", "source"),
    [
        (".stale-", {"", "standby"}, "kept", "standby + changelog"),
        (".stale-", {"", "standby"}, "lost", "local store + changelog"),
        (".standby-", {"stale", "standby"}, "kept", "standby + changelog"),
        (".standby-", {"stale", "standby"}, "lost", "changelog"),
    ],
)
def test_a_takeover_that_a_crash_ends_leaves_the_exact_state(tmp_path, monkeypatch, step, left, copy, source):
    job = MemoryJob(tmp_path / "state", partitions=1, **{"job.standbytasks.replication.factor": "2"})

    def process(first, count):
        job.send(*((0, key, message) for _, key, message in messages(first, count)))
        return job.run()

    process(0, 100)
    earlier = shutil.copytree(tmp_path / "state", tmp_path / "earlier")
    process(100, 50)
    standby = Standby(job)
    standby.caught_up(100)
    standby.stop()
    process(150, 10)  # the tail: ten records that the copy has not
    shutil.rmtree(own := own_stores(tmp_path)[0])
    shutil.copytree(earlier, tmp_path / "state", dirs_exist_ok=True)  # the copy is further than this store
    rename = Path.rename

    def failing(path, target):
        if step in path.name + target.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StoreDiskFailed, match="Input/output error"):
        job.run()
    monkeypatch.undo()
    assert {path.name.partition(".")[2].partition("-")[0] for path in own.parent.iterdir()} == left
    if copy == "lost":
        shutil.rmtree(own.with_name(f"{own.name}.standby-1"))
    assert sources(process(160, 40)) == {source}
    counts = {key: message["count"] for key, message in job.outputs()}
    assert counts == job.changelog() == {f"k{n}": 4 for n in range(50)}


def test_a_standby_outlasts_an_outage_and_follows_the_records_after_it(job):
    job.send(*messages(0, 20))
    job.run()
    standby = Standby(job)
    standby.caught_up(20)
    check, left = standby.container._check, [Unreachable("no broker")] * 3
    away = threading.Event()

    def silent(*arguments, **more):
        if left:
            raise left.pop()
        away.set()
        return check(*arguments, **more)

    standby.container._check = silent
    assert away.wait(DEADLINE_S)
    job.send(*messages(20, 20))
    job.run()
    standby.caught_up(40)
    standby.stop()
    assert standby.report.phase == "done"


def test_a_copy_that_is_in_use_is_left_alone(job, tmp_path):
    job.send(*messages(0, 20))
    job.run()
    standby = Standby(job)
    standby.caught_up(20)
    for store in own_stores(tmp_path):
        shutil.rmtree(store)
    assert sources(job.run()) == {"changelog"}
    job.send(*messages(20, 4))
    job.run()
    standby.caught_up(24)
    standby.stop()


def test_only_what_is_committed_is_copied(tmp_path):
    keys = {"task.guarantee": "exactly-once", "task.commit.ms": "1000", "job.standbytasks.replication.factor": "2"}
    job = MemoryJob(tmp_path / "state", **keys)
    job.send(*messages(0, 100))
    job.run()
    standby = Standby(job)
    standby.caught_up(50)
    job.send(*messages(100, 10), (0, "k0", {"id": 1, "do": "fail"}))
    with pytest.raises(Exception, match="told to"):
        job.run()
    standby.stop()
    for store in own_stores(tmp_path):
        shutil.rmtree(store)
    with pytest.raises(Exception, match="told to"):
        job.run()
    assert set(job.changelog().values()) == {2}


def test_a_standby_shows_its_copies_and_how_far_it_is_behind(job):
    job.send(*messages(0, 400))
    job.run()
    standby = Standby(job, **{"job.query.enabled": "true"})
    standby.caught_up(50)
    question = Question("counts", None, None, 1_000, 2**20)
    answer = standby.stores.answer(question)
    assert {entry.key.decode(): int(entry.value) for entry in answer.entries} == {f"k{n}": 8 for n in range(50)}
    assert answer.as_of.keys() == {0, 1}
    assert 0 <= answer.lag <= 2, "the ends of transactions are offsets, too"
    standby.stop()
    assert standby.stores.answer(question).problem is Problem.MOVING


def test_a_standby_whose_look_hangs_has_a_stale_lag(job, monkeypatch):
    job.send(*messages(0, 100))
    job.run()
    clock, admin = ManualClock(), type(job.admin)
    looked, hanging, going_on = admin.offsets, threading.Event(), threading.Event()
    standby = Standby(job, clock)
    try:
        standby.caught_up(1)
        assert standby.container.report("running").metrics["standby"] == {"lag": 0}

        def hang(self, ssps):
            hanging.set()
            assert going_on.wait(DEADLINE_S)
            return looked(self, ssps)

        monkeypatch.setattr(admin, "offsets", hang)
        clock.advance(10)
        assert hanging.wait(DEADLINE_S)
        assert standby.container.report("running").metrics["standby"] == {"lag": 0}
        clock.advance(6)
        report = standby.container.report("running")
        assert (report.metrics.get("standby"), report.ends) == (None, {})
    finally:
        going_on.set()
        standby.stop()
