"""Stores of a job that runs on Spark, asked from outside."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams, expected, key_of, logged_stores, settings_of

import samzapy
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.verify.processes import until

CODE = Path(__file__).parents[2] / "jobs" / "last_and_count.py"
PARTITIONS = 4


class Scene:
    """A job that counts numbers, its streams, its run, and those who ask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = {
            "job.name": "asked",
            "job.container.count": "2",
            "job.default.system": "local",
            "job.log.dir": f"{folder}/logs",
            "job.query.enabled": "true",
            "job.spark.lease.ms": "6000",
            "task.class": "last_and_count:LastAndCount",
            "task.inputs": "local.in",
            "task.commit.ms": "200",
            "systems.local.samza.factory": "local",
            "systems.local.path": f"{folder}/streams.db",
            "systems.local.default.stream.samza.offset.default": "oldest",
            "systems.local.default.stream.samza.key.serde": "string",
            "systems.local.default.stream.samza.msg.serde": "json",
            "test.output": "local.out",
            **logged_stores("local.asked"),
        }
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in self.job.items()))
        self.streams = Streams(settings_of(self.job, "local"))
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(stream, PARTITIONS))
        self.runs: list[JobProcess] = []
        self.queries = samzapy.query(folder / "job.properties", deadline_s=60)

    def run(self, *arguments: str) -> JobProcess:
        made = JobProcess(self.folder, "job.properties", "--py-files", str(CODE), *arguments)
        self.runs.append(made)
        return made

    def write(self, first: int, count: int) -> None:
        producer = self.streams.producer()
        producer.send([OutgoingRecord("in", key_of(n).encode(), b"%d" % n) for n in range(first, first + count)])
        producer.flush()
        producer.close()

    def counts(self) -> dict[str, int]:
        return {entry.key: entry.value for entry in self.queries.store("counts").range()}

    def until_counted(self, total: int) -> dict[str, int]:
        def found() -> dict[str, int] | None:
            counts = self.counts()
            return counts if sum(counts.values()) == total else None

        return until(found, lambda: f"{sum(self.counts().values())} counted; {self.runs[-1].errors}")

    def statuses(self, path: str) -> int:
        """The status of one question, without the client's patience."""
        parts = urlsplit((next((self.folder / "logs").glob("*/page.url"))).read_text())
        token = parse_qs(parts.query)["token"][0]
        answer = urllib3.request(
            "GET",
            f"{parts.scheme}://{parts.netloc}{path}",
            headers={"authorization": f"Bearer {token}"},
            retries=False,
            timeout=30,
        )
        return answer.status

    def close(self) -> None:
        self.queries.close()
        for run in self.runs:
            run.close()


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    made.close()


@pytest.mark.spark
@pytest.mark.slow
def test_on_spark_a_killed_owner_is_503_until_its_successor_answers_right(scene):
    scene.write(0, 2_000)
    run = scene.run("--master", "local[2,4]")
    exact = expected(2_000)[1]
    assert scene.until_counted(2_000) == exact
    for worker in run.workers():
        worker.kill()
    until(lambda: scene.statuses("/stores/counts") == 503, lambda: run.errors)
    key = min(exact)
    entry = scene.queries.store("counts").entry(key)
    assert (entry.value, entry.standby_lag) == (exact[key], None)
    scene.write(2_000, 300)
    assert scene.until_counted(2_300) == expected(2_300)[1]
    run.terminate()
    assert run.wait() == 0, run.errors
