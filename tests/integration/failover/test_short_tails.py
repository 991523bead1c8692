"""How much of a changelog a job reads when it is started again on the files that it left: nothing, or what was
bounded."""

import re
from contextlib import closing

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job
from rigs.job_process import JobProcess

from samzapy.api.engine import EngineSettings
from samzapy.cli.main import cli
from samzapy.errors import StoreError
from samzapy.storage.rocksdb import RocksDbStorageEngineFactory
from samzapy.verify.processes import until

pytestmark = pytest.mark.slow

JOB = page_view_job("tails")
#: A commit after every slice of messages, of which there are at most so many.
COMMITS = "stores.counts.object.cache.size=0\nstores.counts.uncommitted.max.bytes=1\n"
VIEWS = 4_000


@pytest.fixture
def views(tmp_path, monkeypatch):
    """Appends views of pages that nobody has seen before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.properties").write_text(JOB)
    written = 0

    def call(*arguments, stdin=None):
        done = CliRunner().invoke(cli, [*arguments, "--job", "job.properties"], input=stdin)
        assert done.exit_code == 0, done.stderr

    def append(count):
        nonlocal written
        call("topic", "write", "local.views", stdin="".join(f"/{n}\t{{}}\n" for n in range(written, written + count)))
        written += count

    for stream in ("views", "out"):
        call("topic", "create", f"local.{stream}", "--partitions", "1")
    return append


def configure(folder, settings):
    (folder / "job.properties").write_text(JOB + settings)


def on_disk(folder):
    """Whether a commit has come so far that a kill would not lose it. A file alone says nothing: the manifest has to
    name it."""
    for store in folder.glob("state/*/counts/*"):
        try:
            with closing(RocksDbStorageEngineFactory().open(store, EngineSettings("counts"), read_only=True)) as engine:
                if engine.marker() is not None:
                    return True
        except StoreError:
            continue  # it is being made
    return False


def run(folder, **environ):
    """Run to the end of the input; the exit code and, if the stores were restored, (records, source)."""
    job = JobProcess(folder, "job.properties", "--runner", "local", "--until-end", **environ)
    try:
        code = job.wait()
    finally:
        job.close()
    told = re.search(r"restored ([\d,]+) records in \S+ s from (.*)$", job.errors, re.MULTILINE)
    return code, told and (int(told[1].replace(",", "")), told[2])


def test_after_a_graceful_stop_nothing_is_read(views, tmp_path):
    views(VIEWS)
    assert run(tmp_path) == (0, None)
    assert run(tmp_path) == (0, (0, "local store"))


def test_after_a_kill_nothing_is_read_where_every_commit_is_flushed(views, tmp_path):
    configure(tmp_path, f"{COMMITS}stores.counts.flush.interval.ms=0\n")
    views(VIEWS)
    assert run(tmp_path, SAMZAPY_FAIL="commit.7:14:kill")[0] == -9
    assert run(tmp_path) == (0, (0, "local store"))


def test_what_an_idle_job_has_committed_reaches_the_disk_in_time(views, tmp_path):
    configure(tmp_path, "task.commit.ms=50\nstores.counts.flush.interval.ms=1000\n")
    views(10)
    job = JobProcess(tmp_path, "job.properties", "--runner", "local")
    try:
        until(lambda: on_disk(tmp_path), lambda: job.errors)
        job.kill()
    finally:
        job.close()
    assert run(tmp_path) == (0, (0, "local store"))
