"""Runs of pipelines to the end of their inputs, in several containers: each ends by itself, when all is processed."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from rigs.job_process import JobProcess
from rigs.pipeline_rig import Surroundings, counting, totals

from samzapy.admin.running import ask_to_drain, wait_for_drain
from samzapy.config.loader import load_job

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(500)]

TESTS = Path(__file__).parents[2]
PARTITIONS = 3


class Scene:
    """A pipeline in two containers, and its streams."""

    def __init__(self, folder, name, stages, guarantee, system="shop", **keys):
        self._folder, self._name, self._stages = folder, name, stages
        pipeline = counting(name, stages, system)
        self._counting = f"{name}:{stages}:{system}"
        self._keys = {
            "job.container.count": "2",
            "job.spark.master": "local[2,8]",
            "job.logged.store.base.dir": str(folder / "state"),
            "task.guarantee": guarantee,
            **keys,
        }
        self._around = Surroundings(pipeline, {f"{name}-in": PARTITIONS, f"{name}-out": 2}, **self._keys)
        self._sent = Counter()

    def write(self, count):
        pages = [f"{'xyz'[number % 3]}{number % 7}" for number in range(count)]
        self._sent.update(pages)
        self._around.write(f"{self._name}-in", [{"page": page} for page in pages])

    def run(self, fatal=""):
        """Run to the end; `fatal`: the step and number of the commit at which a container dies."""
        mark = self._folder / f"died-at-{fatal}"
        with closing(self._start("--until-end", **({"FATAL": f"{fatal}:{mark}"} if fatal else {}))) as job:
            assert job.wait(120) == 0, job.errors
        assert mark.exists() == bool(fatal)

    def kill_driver(self, processed):
        """Run, and end the driver with SIGKILL when its containers have processed so many messages."""
        with closing(self._start()) as job:
            job.until_status(lambda status: status["processed"] >= processed)
            job.kill()

    def drain(self, processed):
        """Run, and drain when the containers have processed so many messages."""
        with closing(self._start()) as job:
            job.until_status(lambda status: status["processed"] >= processed)
            config = load_job(self._around.keys | {"task.class": "counting_pipeline:pipeline"})
            run = ask_to_drain(config)
            assert wait_for_drain(config, run, 120, Event().wait), job.errors
            assert job.wait(60) == 0, job.errors

    def _start(self, *arguments, **environ):
        environ |= {"PYTHONPATH": f"{TESTS}:{TESTS / 'jobs'}", "COUNTING": self._counting}
        options = [f"--config={key}={value}" for key, value in self._keys.items()]
        return JobProcess(self._folder, "counting_pipeline:pipeline", *arguments, *options, **environ)

    def check(self):
        """All that was sent is in the results, exactly once if the guarantee says so, and nothing between the stages is
        left."""
        expected = dict(self._sent)
        found = totals(self._around.read(f"{self._name}-out"))
        if self._stages == 3:
            letters = {page[0] for page in expected}
            expected = {key: {"most": max(n for page, n in self._sent.items() if page[0] == key)} for key in letters}
        if self._keys["task.guarantee"] == "exactly-once":
            assert found == expected
        assert found.keys() == expected.keys()
        assert all(number_of(found[key]) >= number_of(expected[key]) for key in expected)
        for between in ["by-page", "by-letter"][: self._stages - 1]:
            assert self._around.read(f"{self._name}-{between}") == []


def on(kafka):
    """The keys of a system on the run's broker."""
    return {"systems.kafka.consumer.bootstrap.servers": kafka, "systems.kafka.default.stream.replication.factor": "1"}


def number_of(result):
    return result["most"] if isinstance(result, dict) else result


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("stages", [2, 3])
def test_runs_end_when_all_is_processed_and_through_kills(tmp_path, stages, guarantee):
    path = {"systems.shop.path": str(tmp_path / "local.db")}
    scene = Scene(tmp_path, "counting", stages, guarantee, **path)
    for fatal in ("", "", "commit.1:1", "commit.5:2", "commit.1:3", "commit.6:3"):
        scene.write(500)
        scene.run(fatal)
        scene.check()


@pytest.mark.kafka
def test_runs_on_kafka_end_and_leave_nothing_between_the_stages(tmp_path, kafka):
    scene = Scene(tmp_path, "counting-on-kafka", 3, "exactly-once", "kafka", **on(kafka))
    for fatal in ("", "commit.5:2"):
        scene.write(500)
        scene.run(fatal)
        scene.check()


@pytest.mark.kafka
def test_totals_on_kafka_are_exact_after_kills_of_the_driver(tmp_path, kafka):
    keys = on(kafka) | {"task.commit.ms": "300", "job.spark.master": "local[2]"}
    scene = Scene(tmp_path, "counting-again", 2, "exactly-once", "kafka", **keys)
    for _ in range(2):
        scene.write(60_000)
        scene.kill_driver(processed=1)
    scene.run()
    scene.check()


@pytest.mark.kafka
@pytest.mark.parametrize("stages", [2, 3])
def test_a_drain_on_kafka_processes_all_that_is_between_the_stages(tmp_path, kafka, stages):
    keys = on(kafka) | {"task.commit.ms": "300"}
    scene = Scene(tmp_path, f"drained-{stages}", stages, "exactly-once", "kafka", **keys)
    for _ in range(2):
        scene.write(30_000)
        scene.drain(processed=1)
        scene.check()
