"""A standby in another executor of a real Spark takes over, with only the tail to read; and a container whose worker
alone is killed goes back to its own store."""

import shutil
from pathlib import Path

import pytest
from rigs.job_process import JobProcess, open_store_folders
from rigs.numbered_stream import Streams, logged_stores, settings_of

from samzapy.api.checkpoint import JobRecord
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import manager_for
from samzapy.config.loader import load_job
from samzapy.system.clients import job_clients
from samzapy.verify.processes import gone, until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

PARTITIONS, KEYS, RECORDS = 2, 20_000, 60_000
WAIT_S = 120.0


def job(folder: Path) -> dict[str, str]:
    return {
        "job.name": "standby",
        "job.default.system": "embedded",
        "job.spark.master": "local-cluster[2,1,1024]",
        "job.spark.lease.ms": "10000",
        "job.logged.store.base.dir": "state",
        "job.host-affinity.enabled": "true",
        "job.standbytasks.replication.factor": "2",
        "task.class": "last_and_count:LastAndCount",
        "task.inputs": "embedded.in",
        "task.commit.ms": "200",
        "systems.embedded.samza.factory": "local",
        "systems.embedded.path": str(folder / "logs.db"),
        "systems.embedded.default.stream.samza.offset.default": "oldest",
        "systems.embedded.default.stream.samza.key.serde": "string",
        "systems.embedded.default.stream.samza.msg.serde": "json",
        "test.output": "embedded.out",
        **logged_stores("embedded.numbers"),
    }


class Scene:
    def __init__(self, folder: Path) -> None:
        self.folder, self.job = folder, job(folder)
        self.streams = Streams(settings_of(self.job, "embedded"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(stream, PARTITIONS))
        self.written = 0
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in self.job.items()))
        self.start()

    def start(self) -> None:
        code = Path(__file__).parents[2] / "jobs" / "last_and_count.py"
        self.run = JobProcess(self.folder, "job.properties", "--py-files", str(code))

    def write(self, count: int) -> None:
        producer = self.streams.producer()
        numbers = range(self.written, self.written + count)
        producer.send([OutgoingRecord("in", f"k{n % KEYS}".encode(), str(n).encode()) for n in numbers])
        producer.flush()
        producer.close()
        self.written += count

    def settled(self, after: int = 0, records: int = 0) -> tuple[dict, dict]:
        """Wait until everything written is processed and copied, by a standby of a later epoch than `after` if
        given."""
        ends = self.streams.ends("in")

        def done(status):
            ((active,), (standby,)) = status["containers"], status["standbys"]
            behind = any(active["positions"].get(ssp, 0) < end for ssp, end in ends.items())
            caught_up = standby["phase"] == "running" and standby["remaining"] == 0 and (standby["epoch"] or 0) > after
            copied = caught_up and sum(standby["positions"].values()) >= records
            return active["phase"] == "running" and not behind and copied

        status = self.run.until_status(done, WAIT_S)
        return status["containers"][0], status["standbys"][0]

    def restored(self, after: int) -> list[dict]:
        """What the first attempt after epoch `after` has restored."""

        def done(status):
            return len(self._of_later(status, after)) == PARTITIONS * 2

        return self._of_later(self.run.until_status(done, WAIT_S), after)

    @staticmethod
    def _of_later(status: dict, after: int) -> list[dict]:
        return [r for r in status["restored"] if r["epoch"] > after]

    def folders(self) -> list[Path]:
        return sorted((self.folder / "state" / "standby-1").glob("*/Partition_?"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    made = Scene(tmp_path_factory.mktemp("standby"))
    yield made
    made.run.close()


def executor_of(worker):
    """The executor's JVM that a Python worker descends from."""
    return next(p for p in worker.parents() if "CoarseGrainedExecutorBackend" in " ".join(p.cmdline()))


def worker_with(scene, *, copies):
    """The Python worker that has the tasks' own stores open, or their copies."""

    def look():
        for worker in scene.run.workers():
            names = {path.name for path in open_store_folders(worker, scene.folder / "state")}
            if names and all((".standby-" in name) == copies for name in names):
                return worker
        return None

    return until(look, "no such worker", WAIT_S)


def test_after_a_lost_executor_the_standbys_copies_are_the_stores_and_only_the_tail_is_read(scene):
    scene.write(RECORDS)
    active, standby = scene.settled(records=2 * KEYS)
    here, there = worker_with(scene, copies=False), worker_with(scene, copies=True)
    executor = executor_of(here)
    assert executor != executor_of(there)
    lost = executor.children(recursive=True)
    for folder in scene.folders():
        shutil.rmtree(folder)
    executor.kill()
    until(lambda: all(map(gone, lost)), "a worker outlived its executor")
    stores = scene.restored(active["epoch"])
    assert {store["source"].split(" + ")[0] for store in stores} == {"standby"}, stores
    assert sum(store["records"] for store in stores) < KEYS / 10
    scene.write(1_000)
    scene.settled(after=standby["epoch"], records=2 * KEYS)


def test_after_a_killed_worker_the_container_goes_back_to_its_own_store_and_the_standby_stays(scene):
    active, standby = scene.settled()
    worker = worker_with(scene, copies=False)
    executor = executor_of(worker)
    worker.kill()
    stores = scene.restored(active["epoch"])
    assert {store["source"].split(" + ")[0] for store in stores} == {"local store"}
    assert executor_of(worker_with(scene, copies=False)) == executor
    assert scene.settled()[1]["epoch"] == standby["epoch"]


def test_the_hosts_are_written_down_and_everything_was_counted_once_the_job_has_stopped(scene):
    scene.settled()
    scene.run.terminate()
    assert scene.run.wait(WAIT_S) == 0, scene.run.errors
    config = load_job(scene.job)
    clients = job_clients(config, "test")
    checkpoints = manager_for(config, clients)
    places = checkpoints.read_record(JobRecord.LOCALITY).newest["tasks"]
    checkpoints.close()
    clients.close()
    assert sorted(places) == ["Partition 0", "Partition 1"]
    assert {place["host"] for place in places.values()} == {"127.0.0.1"}
    counted = [int(value) for part in scene.streams.replay("numbers-counts-changelog") for value in part.values()]
    assert len(counted) == KEYS
    assert sum(counted) >= scene.written
