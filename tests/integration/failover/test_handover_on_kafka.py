"""A job on a real Kafka that is started again while it runs: handed over in every guarantee, and killed at each
step."""

import os
from collections import Counter
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import STORES, Feeder, Streams, dump, expected, kafka_job, settings_of

from samzapy.api.system import StreamSpec
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(180)]

PARTITIONS = 2
CODE = Path(__file__).parents[2] / "jobs" / "last_and_count.py"


class Scene:
    """A job, its feeder, and its runs, each in a process of its own."""

    def __init__(self, folder, bootstrap, name, guarantee):
        self.folder, self.prefix = folder, f"{name}-{os.getpid()}"
        keys = {
            "job.spark.lease.ms": "6000",
            "job.logged.store.base.dir": "state",
            "job.page.port": "0",
            "task.guarantee": guarantee,
        }
        job = kafka_job(self.prefix, bootstrap, **keys)
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
        self.streams = Streams(settings_of(job, "kafka"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(f"{self.prefix}-{stream}", PARTITIONS))
        self.runs = []
        self.feeder = Feeder(self.streams, f"{self.prefix}-in")

    def start(self, fail="", *more):
        environ = {"SAMZAPY_FAIL": f"{fail}:1:kill"} if fail else {}
        run = JobProcess(self.folder, "job.properties", "--runner", "local", "--py-files", str(CODE), *more, **environ)
        self.runs.append(run)
        return run

    def flowing(self, run):
        """Wait until the run processes what is written from now on; returns its status."""
        marks = self.streams.ends(f"{self.prefix}-in")

        def caught_up(status):
            (container,) = status["containers"]
            positions = container["positions"]
            return positions.keys() == marks.keys() and all(positions[ssp] >= mark for ssp, mark in marks.items())

        return run.until_status(caught_up)

    def ended(self, run):
        return until(lambda: (run.exit_code,) if run.exit_code is not None else None, lambda: run.errors)[0]

    def finish(self, run):
        """Stop; returns how many numbers were written, and how often each was sent on. Stores and changelogs agree."""
        written = self.feeder.close()
        self.flowing(run)
        run.terminate()
        assert run.wait() == 0, run.errors
        for store in STORES:
            base = self.folder / "state" / f"{self.prefix}-1" / store
            replayed = self.streams.replay(f"{self.prefix}-{store}-changelog")
            assert replayed == [dump(base / f"Partition_{n}", store) for n in range(PARTITIONS)]
            contents = {key.decode(): int(value) for part in replayed for key, value in part.items()}
            assert contents == dict(expected(written)[STORES.index(store)])
        outputs = Counter()
        for batch in self.streams.read(f"{self.prefix}-out"):
            outputs.update(map(int, batch.values))
        return written, outputs

    def close(self):
        for run in self.runs:
            run.close()
        if not self.feeder._closed.is_set():
            self.feeder.close()


@pytest.fixture
def scene(kafka, tmp_path, request):
    made = []

    def make(name, guarantee):
        made.append(Scene(tmp_path, kafka, name, guarantee))
        return made[0]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once", "effectively-once", "at-most-once"])
def test_a_job_that_is_handed_over_repeats_nothing_and_finds_its_stores(scene, guarantee):
    job = scene(f"handed-{guarantee}", guarantee)
    first = job.start()
    job.flowing(first)
    second = job.start()
    status = job.flowing(second)
    assert job.ended(first) == 0, first.errors
    assert "has taken over: every task commits" in first.errors
    restored = [(each["source"], each["records"]) for each in status["restored"]]
    assert restored == [("local store", 0)] * (PARTITIONS * len(STORES)), status["restored"]
    written, outputs = job.finish(second)
    assert outputs == Counter(range(written))


def test_a_handover_cut_short_at_any_step_loses_and_repeats_nothing(scene):
    job = scene("cut", "exactly-once")
    first = job.start()
    job.flowing(first)
    for point in ("handover.1", "handover.3"):
        new = job.start(point)
        assert job.ended(new) == -9, new.errors
        job.flowing(first)
    for point in ("handover.4", "handover.7"):
        new = job.start(point)
        assert job.ended(new) == -9, new.errors
        again = job.start()
        job.flowing(again)
        assert job.ended(first) == 0, first.errors
        first = again
    for point in ("handover.2", "handover.5", "handover.6"):
        doomed = job.start(point)
        job.flowing(doomed)
        assert job.ended(first) == 0, first.errors
        first = job.start()
        job.flowing(first)
        assert job.ended(doomed) == -9, doomed.errors
    written, outputs = job.finish(first)
    assert outputs == Counter(range(written))


@pytest.mark.parametrize(("fail", "task", "code"), [("", "Unable", 1), ("handover.7", "LastAndCount", -9)])
def test_a_safe_handover_to_a_run_that_fails_gives_the_job_back(scene, fail, task, code):
    job = scene(f"back-{task.lower()}", "exactly-once")
    first = job.start()
    job.flowing(first)
    new = job.start(fail, "--handover=safe", "-c", f"task.class={CODE.stem}:{task}")
    assert job.ended(new) == code, new.errors
    job.flowing(first)
    assert "failed before its first poll" in first.errors
    written, outputs = job.finish(first)
    assert outputs == Counter(range(written))
