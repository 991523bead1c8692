"""Jobs through `samzapy run`, on Spark and in one process, on the embedded system."""

import json
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import Feeder, Streams, dump, expected, key_of, settings_of

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.verify.processes import command_line, gone, until

HERE = Path(__file__).parent
PARTITIONS = 3
CODE = f"{HERE.parents[1] / 'jobs' / 'last_and_count.py'},{HERE / 'stubborn.py'}"


class Scene:
    """A job file and its streams in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.job = {
            "job.name": "numbers",
            "job.container.count": "2",
            "job.default.system": "local",
            "task.class": "last_and_count:LastAndCount",
            "task.inputs": "local.in",
            "task.commit.ms": "300",
            "systems.local.samza.factory": "local",
            "systems.local.path": "logs/local.db",
            "systems.local.default.stream.samza.offset.default": "oldest",
            "systems.local.default.stream.samza.key.serde": "string",
            "systems.local.default.stream.samza.msg.serde": "json",
            "test.output": "local.out",
            "sensitive.password": "${env:TEST_PASSWORD}",
            "job.spark.conf.spark.hadoop.fs.s3a.secret.key": "pa55-w0rd",
        }
        for store in ("last", "counts"):
            self.job |= {
                f"stores.{store}.factory": "rocksdb",
                f"stores.{store}.key.serde": "string",
                f"stores.{store}.msg.serde": "json",
                f"stores.{store}.changelog": f"local.{store}-changelog",
            }
        (folder / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in self.job.items()))
        self.streams = Streams(
            settings_of(
                {**self.job, "systems.local.path": f"{folder}/logs/local.db", "sensitive.password": "x"}, "local"
            )
        )
        for stream in ("in", "out"):
            self.streams.admin.create(StreamSpec(stream, PARTITIONS))
        self.runs: list[JobProcess] = []

    def run(self, *arguments: str) -> JobProcess:
        made = JobProcess(self.folder, "job.properties", "--py-files", CODE, *arguments, TEST_PASSWORD="pa55-w0rd")
        self.runs.append(made)
        return made

    def write(self, count: int) -> None:
        producer = self.streams.producer()
        producer.send([OutgoingRecord("in", key_of(n).encode(), b"%d" % n) for n in range(count)])
        producer.flush()
        producer.close()

    def outputs(self) -> Counter:
        found = Counter()
        for batch in self.streams.read("out"):
            found.update(map(int, batch.values))
        return found

    def check_state(self, written: int) -> None:
        """Stores, changelogs and the independent computation agree, every number counted exactly once."""
        contents = {}
        for store in ("last", "counts"):
            parts = [
                dump(self.folder / "state" / "numbers-1" / store / f"Partition_{n}", store) for n in range(PARTITIONS)
            ]
            assert parts == self.streams.replay(f"{store}-changelog")
            contents[store] = {key.decode(): int(value) for part in parts for key, value in part.items()}
        assert (contents["last"], contents["counts"]) == expected(written)


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    for run in made.runs:
        run.close()


def test_a_job_runs_to_its_end_in_one_process(scene):
    scene.write(5_000)
    run = scene.run("--runner", "local", "--until-end")
    assert run.wait() == 0, run.errors
    assert run.output.startswith("5,000 messages in ")
    assert scene.outputs() == Counter(range(5_000))
    scene.check_state(5_000)


@pytest.mark.spark
def test_a_job_runs_to_its_end_on_one_slot_and_spark_says_nothing(scene):
    scene.write(5_000)
    run = scene.run("--master", "local[1]", "--until-end", "--json")
    assert run.wait() == 0, run.errors
    outcome = json.loads(run.output)
    assert (outcome["processed"], outcome["remaining"], outcome["failed"]) == (5_000, 0, 0)
    assert [c["state"] for c in outcome["containers"]] == ["done", "done"]
    assert scene.outputs() == Counter(range(5_000))
    scene.check_state(5_000)
    ours = ("status page: ", "container ")
    assert [line for line in run.errors.splitlines() if not line.startswith(ours)] == []
    assert list((scene.folder / "tmp").glob("samzapy-*")) == []


@pytest.mark.spark
def test_sigterm_makes_containers_commit_and_leaves_no_process_or_secret(scene):
    scene.write(1)
    run = scene.run()
    feeder = Feeder(scene.streams, "in")
    run.until_status(lambda status: status["processed"] > 2_000 and all(c["commits"] for c in status["containers"]))
    everyone = run.below()
    assert len(run.workers()) == 2
    token = run.errors.partition("token=")[2].split()[0]
    for secret in (token, "pa55-w0rd"):
        assert not any(secret in command_line(process) for process in everyone)
    assert "pa55-w0rd" not in json.dumps(run.status())
    run.terminate()
    assert run.wait() == 0, run.errors
    feeder.close()
    until(lambda: all(map(gone, everyone)), "a process is left")
    outputs = scene.outputs()
    assert max(outputs.values()) <= 2  # the number 0 was written twice: once before the start
    assert sum(outputs.values()) > 2_000
    for store in ("last", "counts"):
        base = scene.folder / "state" / "numbers-1" / store
        parts = [dump(base / f"Partition_{n}", store) for n in range(PARTITIONS)]
        assert parts == scene.streams.replay(f"{store}-changelog")
    assert sum(int(count) for part in parts for count in part.values()) == sum(outputs.values())


@pytest.mark.spark
@pytest.mark.slow
def test_a_failing_task_is_told_at_once_and_given_up_in_one_line(scene):
    scene.write(50)
    keys = {"task.class": "stubborn:Failing", "job.spark.max.resubmits": "1"}
    overrides = [argument for key, value in keys.items() for argument in ("--config", f"{key}={value}")]
    run = scene.run("--master", "local[2,1]", "--until-end", *overrides)
    assert run.wait() == 1
    lines = run.errors.splitlines()
    assert sum(line.startswith("container ") and "ValueError: seven is too many" in line for line in lines) in {2, 3}
    assert re.match(r"error: gave up container \d after 2 failures in a row: Partition ", lines[-1])
    assert "Traceback" not in run.errors, "the log files have it"


def test_a_second_signal_ends_a_run_that_does_not_stop(scene):
    scene.write(1)
    run = scene.run("--runner", "local", "--config", "task.class=stubborn:Stuck")
    until(lambda: "stuck" in run.output, lambda: run.errors)
    run.process.send_signal(signal.SIGINT)
    until(lambda: "a second signal ends the job at once" in run.errors, lambda: run.errors)
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 130
