"""The archive of classes: recorded by its program, and mapped by the JVMs of a run."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams, settings_of

from samzapy.api.system import StreamSpec

CODE = Path(__file__).parents[2] / "jobs" / "last_and_count.py"
JOB = {
    "job.name": "numbers",
    "job.spark.class.archive": "true",
    "job.default.system": "local",
    "task.class": "last_and_count:LastAndCount",
    "task.inputs": "local.in",
    "systems.local.samza.factory": "local",
    "systems.local.path": "logs/local.db",
    "systems.local.default.stream.samza.key.serde": "string",
    "systems.local.default.stream.samza.msg.serde": "json",
    "test.output": "local.out",
    "stores.last.factory": "rocksdb",
    "stores.last.key.serde": "string",
    "stores.last.msg.serde": "json",
    "stores.counts.factory": "rocksdb",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "json",
}
RECORD = (sys.executable, "-m", "samzapy.runner.spark.jvm.recorder")


def arguments(process: psutil.Process) -> str:
    """The command line, empty for a process that has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def mapped(process: psutil.Process, archive: Path) -> list[bool]:
    """Of each JVM of Spark below a process, whether it has mapped the archive."""
    jvms = [each for each in process.children(recursive=True) if "org.apache.spark" in arguments(each)]
    return [str(archive) in Path(f"/proc/{jvm.pid}/maps").read_text() for jvm in jvms]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_jvms_of_a_run_map_the_archive_and_say_nothing_about_one_that_is_damaged(tmp_path):
    cache = tmp_path / "cache"

    def record() -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "SAMZAPY_CACHE": str(cache)}
        return subprocess.run(RECORD, env=environ, capture_output=True, text=True, check=False)

    recorded = record()
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    archive = Path(recorded.stdout.strip())
    assert archive.is_file()
    assert sorted(each.name for each in archive.parent.iterdir()) == ["classes.jsa", "home", "lock", "size"]
    assert record().stdout == recorded.stdout

    (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in JOB.items()))
    streams = Streams(settings_of({**JOB, "systems.local.path": f"{tmp_path}/logs/local.db"}, "local"))
    for stream in ("in", "out"):
        streams.admin.create(StreamSpec(stream, 1))

    def run() -> tuple[list[bool], str]:
        job = JobProcess(
            tmp_path,
            *("job.properties", "--py-files", str(CODE), "--master", "local-cluster[1,1,1024]"),
            SAMZAPY_CACHE=str(cache),
        )
        try:
            job.until_status(lambda status: all(each["state"] == "running" for each in status["containers"]), 240.0)
            found = mapped(psutil.Process(job.process.pid), archive)
            job.process.terminate()
            assert job.wait() == 0
            return found, job.errors
        finally:
            job.close()

    driver_and_executor, quiet = run()
    assert driver_and_executor == [True, True]
    assert "archive" not in quiet
    damaged = bytearray(archive.read_bytes())
    for place in range(len(damaged) // 4, len(damaged), len(damaged) // 8):
        damaged[place : place + 4096] = bytes(each ^ 255 for each in damaged[place : place + 4096])
    archive.unlink()
    archive.write_bytes(damaged)
    found, said = run()
    assert found == [False, False]
    assert "archive" not in said
