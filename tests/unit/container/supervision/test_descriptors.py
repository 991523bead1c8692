"""The open files and the memory that a container needs, and the limit of open files, in a process of its own."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from rigs.store_rig import LOGGED, store_job

from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.container.supervision.worker_process import CLIENT_FILES, STORE_FILES
from samzapy.system.local.factory import LocalSystemFactory
from samzapy.testing import open_store

PARTITIONS = 16
JOB = """\
job.name=files
task.class=tasks_of_files:Keep
task.inputs=local.in
systems.local.samza.factory=local
systems.local.path=log.db
systems.local.samza.key.serde=string
systems.local.samza.msg.serde=string
systems.local.samza.offset.default=oldest
stores.s.factory=rocksdb
stores.s.key.serde=string
stores.s.msg.serde=string
stores.s.changelog=local.s-log
"""
TASKS = """\
from samzapy.api.task import InitableTask, StreamTask

class Keep(StreamTask, InitableTask):
    def init(self, context):
        self.store = context.get_store("s")

    def process(self, envelope, collector, coordinator):
        self.store.put(envelope.key, envelope.message)
"""
#: `samzapy run` in a process that may have so many files open, and may allow itself so many.
RUN = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from samzapy.cli.main import cli
cli.main(["run", "job.properties", "--runner", "local", "--until-end"])
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "tasks_of_files.py").write_text(TASKS)
    (tmp_path / "job.properties").write_text(JOB)
    settings = SystemSettings("local", "local", properties={"path": str(tmp_path / "log.db")})
    with closing(LocalSystemFactory().admin(settings, "test")) as admin:
        admin.create(StreamSpec("in", PARTITIONS))
    with closing(LocalSystemFactory().producer(settings, "test")) as producer:
        producer.send([OutgoingRecord("in", b"k", b"v", number) for number in range(PARTITIONS)])
        producer.flush()

    def call(soft, hard):
        command = [sys.executable, "-c", RUN, str(soft), str(hard)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)

    return call


def test_a_limit_that_is_too_low_is_refused_at_once_with_the_numbers(run, tmp_path):
    done = run(100, 100)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: container 0: expected a limit of at least ")
    needed = 16 * STORE_FILES + CLIENT_FILES
    assert f" open files, got 100: {needed} for the stores and clients of 16 tasks, " in line
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_store_with_one_table_has_open_what_is_counted_on(tmp_path):
    with open_store(store_job(LOGGED), "s", tmp_path) as opened:
        opened.store.put("a", "b")
        opened.commit()
        opened.stores.flush_engines()
        links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    # One more while the next table is being written.
    assert len([link for link in links if link.startswith(str(tmp_path))]) == STORE_FILES - 1
