"""Who was given up writes nothing that counts once its successor has started: stopped processes, orphans, second
copies.

With transactions the broker refuses it. Without them there is the lease: what a zombie had handed to its producer
before it was stopped may still go out, and is counted as duplicates here.
"""

import signal
import time

import pytest
from rigs.job_process import JobProcess
from zombie_job import PARTITIONS, ZombieJob

from samzapy.verify.processes import gone, resume, suspend, until, with_children

GUARANTEES = ["at-most-once", "at-least-once", "effectively-once", "exactly-once"]
pytestmark = pytest.mark.timeout(400)

#: The two that differ least from the others where processes of Spark are concerned.
MORE = [pytest.param(name, marks=pytest.mark.slow) for name in ("at-most-once", "effectively-once")]
PATIENCE_S = 120.0
#: Before the first fault. Spark needs minutes to start on a machine that is busy with other torture.
START_S = 300.0


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def system(request, tmp_path):
    """A system's name and its keys."""
    if request.param == "local":
        return "local", {"systems.sys.samza.factory": "local", "systems.sys.path": str(tmp_path / "local.db")}
    return "kafka", on_kafka(request.getfixturevalue("kafka"))


def on_kafka(bootstrap: str) -> dict[str, str]:
    return {"systems.sys.samza.factory": "kafka", "systems.sys.consumer.bootstrap.servers": bootstrap}


@pytest.fixture
def scene(tmp_path):
    made = []

    def make(system_keys, guarantee, **keys):
        made.append(ZombieJob(tmp_path, system_keys, guarantee, **keys))
        return made[-1]

    yield make
    for job in made:
        job.close()


def written(job: ZombieJob) -> int:
    return sum(job.streams.ends(f"{job.prefix}-out").values())


def until_more_is_written(job: ZombieJob, run: JobProcess) -> None:
    """Wait until the output has grown twice, so that a commit lies between."""
    for _ in range(2):
        before = written(job)
        until(lambda b=before: written(job) > b or run.process.poll() is not None, "nothing written", PATIENCE_S)
        assert run.process.poll() is None, run.errors


def finish(job: ZombieJob, run: JobProcess) -> dict[str, int]:
    """Stop the run, process the rest, and count."""
    job.feeder.close()
    run.terminate()
    assert run.wait(PATIENCE_S) == 0, run.errors
    rest = job.start("--runner", "local", "--until-end")
    assert rest.wait(PATIENCE_S) == 0, rest.errors
    return job.measured()


@pytest.mark.kafka
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_job_stopped_while_a_second_copy_starts_is_refused_afterwards(kafka, guarantee, scene, outcome):
    # Not on the local system: its file stays locked while a process that was about to write is stopped.
    job = scene(on_kafka(kafka), guarantee)
    zombie = job.start("--runner", "local")
    until_more_is_written(job, zombie)
    zombie.process.send_signal(signal.SIGSTOP)
    # Longer than the lease of 3 s, whether or not the successor takes that long.
    lease_over = time.monotonic() + 3.5
    successor = job.start("--runner", "local")
    until_more_is_written(job, successor)
    until(lambda: time.monotonic() > lease_over, "the clock stands still")
    zombie.process.send_signal(signal.SIGCONT)
    assert zombie.wait(PATIENCE_S) == 1, zombie.errors
    assert f"error: another run of job '{job.prefix}' (started at " in zombie.errors
    until_more_is_written(job, successor)
    measured = finish(job, successor)
    outcome("stopped job, second copy", guarantee=guarantee, system="kafka", faults=1, **measured)


class Cluster:
    """One run on a small Spark cluster, and what can be done to its processes."""

    def __init__(self, job: ZombieJob) -> None:
        self.job = job
        self.run = job.start()
        self.flowing(START_S)

    def flowing(self, patience_s: float = PATIENCE_S) -> dict:
        """Wait until every container processes what is written from now on; returns the status."""
        marks = self.job.streams.ends(f"{self.job.prefix}-in")

        def caught_up(status):
            reached = [c["positions"] for c in status["containers"] if c["phase"] == "running"]
            positions = {ssp: offset for each in reached for ssp, offset in each.items()}
            return positions.keys() == marks.keys() and all(positions[ssp] >= mark for ssp, mark in marks.items())

        return self.run.until_status(caught_up, patience_s)

    def epochs(self) -> dict[str, int]:
        return {c["id"]: c["epoch"] for c in self.run.status()["containers"]}

    def replaced(self, before: dict[str, int], times: int = 1) -> float:
        """Wait until that many containers have a newer attempt, and all work again; returns the seconds it took."""
        began = time.monotonic()
        self.run.until_status(lambda s: sum(c["epoch"] > before[c["id"]] for c in s["containers"]) >= times, PATIENCE_S)
        self.flowing()
        return time.monotonic() - began


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once", *MORE])
def test_stopped_workers_stopped_executors_and_orphans_are_replaced(guarantee, kafka, scene, outcome):
    job = scene(
        on_kafka(kafka),
        guarantee,
        **{
            "job.container.count": str(PARTITIONS),
            "job.spark.master": f"local-cluster[{PARTITIONS},1,1024]",
            "job.spark.conf.spark.network.timeout": "10s",
            # Otherwise that is also the time for the answers that Spark's parts wait for at their start.
            "job.spark.conf.spark.rpc.askTimeout": "120s",
            "job.spark.conf.spark.network.timeoutInterval": "2s",
            "job.spark.conf.spark.executor.heartbeatInterval": "2s",
            "task.transaction.timeout.ms": "5000",
        },
    )
    cluster, slowest = Cluster(job), 0.0

    # A worker that is stopped: Spark sees nothing, the lease runs out.
    epochs, worker = cluster.epochs(), cluster.run.workers()[0]
    suspend([worker])
    slowest = max(slowest, cluster.replaced(epochs))
    assert "no heartbeat for 3 s; its worker is killed" in cluster.run.errors
    resume([worker])
    until(lambda: gone(worker), "the stopped worker is still there")

    # An executor with all that belongs to it, longer than Spark waits for one.
    epochs, executor = cluster.epochs(), cluster.run.executors()[0]
    frozen = with_children(executor.pid)
    suspend(frozen)
    slowest = max(slowest, cluster.replaced(epochs))
    resume(frozen)
    until(lambda: all(map(gone, frozen)), "a process of the executor that was given up is still there")

    # The daemon that has forked a worker: the orphan ends with it.
    epochs, worker = cluster.epochs(), cluster.run.workers()[0]
    worker.parent().kill()
    until(lambda: gone(worker), "the orphan is still there")
    slowest = max(slowest, cluster.replaced(epochs))

    measured = finish(job, cluster.run)
    outcome(
        "stopped worker, stopped executor, orphan",
        guarantee=guarantee,
        system="kafka",
        faults=3,
        recovery_s=slowest,
        **measured,
    )
