"""Kills on a real Kafka and a real Spark cluster: the worker, the executor, the driver; local state there or gone.

One job runs through all of it while numbers keep coming in; at the end everything written must have been processed,
and the changelogs, the local stores and an independent computation must agree.
"""

import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest
from rigs.job_process import JobProcess, open_store_folders
from rigs.numbered_stream import (
    STORES,
    Feeder,
    Streams,
    dump,
    expected,
    is_on_disk,
    kafka_job,
    key_of,
    logged_stores,
    settings_of,
)

from samzapy.api.system import StreamSpec
from samzapy.verify.processes import gone, until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(240)]

PARTITIONS = 4


def job(bootstrap: str, prefix: str) -> dict[str, str]:
    # Small, so that memtables reach the disk while the test runs.
    small = {"container.write.buffer.size.bytes": "131072"}
    keys = {
        "job.container.count": "2",
        "job.spark.master": "local-cluster[2,1,1024]",
        "job.spark.lease.ms": "6000",
        "job.spark.conf.spark.decommission.enabled": "true",
        "job.logged.store.base.dir": "state",
        **logged_stores(f"kafka.{prefix}", **small),
    }
    return kafka_job(prefix, bootstrap, **keys)


class Scene:
    """The job, its feeder, and the run that is going on."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.prefix = f"failover-{os.getpid()}"
        self.job = job(bootstrap, self.prefix)
        self.streams = Streams(settings_of(self.job, "kafka"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(f"{self.prefix}-{stream}", PARTITIONS))
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in self.job.items()))
        self.feeder = Feeder(self.streams, f"{self.prefix}-in")
        self.run = self.start()

    def start(self) -> JobProcess:
        code = Path(__file__).parents[2] / "jobs" / "last_and_count.py"
        return JobProcess(self.folder, "job.properties", "--py-files", str(code))

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def flowing(self) -> dict:
        """Wait until every container processes what is written from now on; returns the status."""
        marks = self.streams.ends(f"{self.prefix}-in")

        def caught_up(status):
            reached = [c["positions"] for c in status["containers"] if c["phase"] == "running"]
            positions = {ssp: offset for each in reached for ssp, offset in each.items()}
            return positions.keys() == marks.keys() and all(positions[ssp] >= mark for ssp, mark in marks.items())

        return self.run.until_status(caught_up)

    def container_of(self, process: psutil.Process) -> str:
        """The id of the container whose stores the process (or one below it) has open."""
        tasks = {path.name.replace("_", " ") for path in open_store_folders(process, self.state)}
        by_task = {f"Partition {n}": str(n % 2) for n in range(PARTITIONS)}
        (found,) = {by_task[task] for task in tasks}
        return found

    def kill(self, process: psutil.Process, local_state: str) -> tuple[str, int]:
        """SIGKILL with the process's stores on disk, or gone; returns the container hit and its epoch until then."""
        container = self.container_of(process)
        (epoch,) = {c["epoch"] for c in self.run.status()["containers"] if c["id"] == container}
        folders = open_store_folders(process, self.state)
        assert len(folders) == PARTITIONS // 2 * len(STORES)
        if local_state == "present":
            until(lambda: all(map(is_on_disk, folders)), "no memtable was flushed")
        else:
            for each in folders:
                shutil.rmtree(each)
        process.kill()
        return container, epoch

    def restored(self, container: str, after: int) -> list[dict]:
        """Wait for a new attempt that has restored every store; returns what it reported."""

        def done(status):
            (found,) = [c for c in status["containers"] if c["id"] == container]
            stores = [r for r in status["restored"] if r["epoch"] == found["epoch"] and r["container_id"] == container]
            return (found["epoch"] or 0) > after and len(stores) == PARTITIONS // 2 * len(STORES) and stores

        return done(self.run.until_status(done))

    def close(self) -> None:
        self.run.close()
        self.feeder.close()


@pytest.fixture(scope="module")
def scene(kafka, tmp_path_factory):
    made = Scene(tmp_path_factory.mktemp("failover"), kafka)
    yield made
    made.close()


def check_restored(stores: list[dict], local_state: str) -> None:
    expected_source = "local store + changelog" if local_state == "present" else "changelog"
    assert {store["source"] for store in stores} == {expected_source}
    assert all(store["records"] > 0 and store["seconds"] > 0 for store in stores)


@pytest.mark.parametrize("local_state", ["present", "deleted"])
def test_after_a_killed_python_worker_the_container_fails_over(scene, local_state):
    scene.flowing()
    container, epoch = scene.kill(scene.run.workers()[0], local_state)
    check_restored(scene.restored(container, epoch), local_state)
    scene.flowing()


def test_a_decommissioned_executor_hands_its_container_over_without_a_failure(scene):
    before = scene.flowing()
    executor = scene.run.executors()[0]
    container = scene.container_of(executor)
    (epoch,) = {c["epoch"] for c in before["containers"] if c["id"] == container}
    executor.send_signal(signal.SIGPWR)
    stores = scene.restored(container, epoch)
    assert {store["source"] for store in stores} == {"local store"}, "it has committed and closed them"
    assert scene.flowing()["failed"] == before["failed"]
    until(lambda: gone(executor), "the executor waited for its host to go")


@pytest.mark.parametrize("local_state", ["present", "deleted"])
def test_a_killed_executors_workers_go_and_its_container_fails_over(scene, local_state):
    scene.flowing()
    executor = scene.run.executors()[0]
    below = executor.children(recursive=True)
    container, epoch = scene.kill(executor, local_state)
    until(lambda: all(map(gone, below)), "a worker outlived its executor")
    check_restored(scene.restored(container, epoch), local_state)
    scene.flowing()


@pytest.mark.parametrize("local_state", ["present", "deleted"])
def test_after_a_killed_driver_nothing_of_it_is_left_and_a_new_one_goes_on(scene, local_state):
    status = scene.flowing()
    left = scene.run.kill()
    until(lambda: all(map(gone, left)), "a process outlived its driver")
    if local_state == "deleted":
        shutil.rmtree(scene.state)
    scene.run = scene.start()
    for container in status["containers"]:
        check_restored(scene.restored(container["id"], container["epoch"]), local_state)
    scene.flowing()


def test_after_every_failover_changelogs_stores_and_oracle_agree(scene):
    written = scene.feeder.close()
    scene.flowing()
    scene.run.process.send_signal(signal.SIGTERM)
    assert scene.run.wait() == 0, scene.run.errors
    last, counts = expected(written)
    outputs = Counter()
    for batch in scene.streams.read(f"{scene.prefix}-out"):
        outputs.update(map(int, batch.values))
    assert outputs.keys() == set(range(written))
    contents = {}
    for store in STORES:
        replayed = scene.streams.replay(f"{scene.prefix}-{store}-changelog")
        base = scene.state / f"{scene.prefix}-1" / store
        assert replayed == [dump(base / f"Partition_{n}", store) for n in range(PARTITIONS)]
        contents[store] = {key.decode(): int(value) for part in replayed for key, value in part.items()}
    assert contents["last"] == last
    sent = Counter()
    for number, times in outputs.items():
        sent[key_of(number)] += times
    assert all(counts[key] <= contents["counts"][key] <= sent[key] for key in counts)
