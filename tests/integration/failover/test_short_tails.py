"""What a job has committed and then goes on without messages is on disk in time: a kill costs no changelog to read."""

from contextlib import suppress

import pytest
from click.testing import CliRunner
from jobs.page_view_job import page_view_job
from rigs.job_process import JobProcess
from rigs.numbered_stream import is_on_disk

from samzapy.cli.main import cli
from samzapy.errors import StoreError
from samzapy.verify.processes import until

FLUSHING = "task.commit.ms=50\nstores.counts.flush.interval.ms=1000\n"


@pytest.mark.slow
def test_what_an_idle_job_has_committed_reaches_the_disk_in_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.properties").write_text(page_view_job("tails") + FLUSHING)
    for stream in ("views", "out"):
        called("create", f"local.{stream}", "--partitions", "1")
    called("write", "local.views", stdin="".join(f"/{number}\t{{}}\n" for number in range(10)))

    def on_disk():
        with suppress(StoreError):  # it is being made
            return any(is_on_disk(store) for store in tmp_path.glob("state/*/counts/*"))

    job = JobProcess(tmp_path, "job.properties", "--runner", "local")
    try:
        until(on_disk, lambda: job.errors)
    finally:
        job.kill()
    again = JobProcess(tmp_path, "job.properties", "--runner", "local", "--until-end")
    try:
        assert again.wait() == 0, again.errors
    finally:
        again.close()
    assert "restored 0 records in" in again.errors
    assert "from local store" in again.errors


def called(command, *arguments, stdin=None):
    done = CliRunner().invoke(cli, ["topic", command, *arguments, "--job", "job.properties"], input=stdin)
    assert done.exit_code == 0, done.stderr
