"""`samzapy store` and `samzapy checkpoint` while a job is up: what is committed is read, nothing is moved."""

import json
import re

import pytest
import urllib3
from click.testing import CliRunner
from jobs.page_view_job import page_view_job
from rigs.job_process import JobProcess

from samzapy.cli.main import cli
from samzapy.verify.processes import until


@pytest.fixture
def samzapy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments, stdin=None, code=0):
        done = CliRunner().invoke(cli, list(arguments), input=stdin)
        assert done.exit_code == code, done.stderr
        return done.stderr if code else done.stdout

    return call


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_running_job_is_read_and_not_moved(samzapy, tmp_path, guarantee):
    (tmp_path / "job.properties").write_text(page_view_job("live", task__guarantee=guarantee, task__commit__ms=200))
    for stream in ("views", "out"):
        samzapy("topic", "create", f"local.{stream}", "--partitions", "1", "--job", "job.properties")
    views = "/a\t{}\n/b\t{}\n/a\t{}\n"
    samzapy("topic", "write", "local.views", "--job", "job.properties", stdin=views)
    job = JobProcess(tmp_path, "job.properties", "--runner", "local")

    def counts():
        rows = samzapy("store", "scan", "job.properties", "counts").splitlines()
        return {row["key"]: row["value"] for row in map(json.loads, rows)}

    try:
        until((tmp_path / "state" / "live-1").exists, lambda: job.errors)
        until(lambda: counts() == {"/a": 2, "/b": 1}, lambda: f"{counts()} {job.errors}")
        refusal = samzapy("checkpoint", "set", "job.properties", "oldest", code=3)
        assert f"(pid {job.process.pid}) is running; stop it first" in refusal
        samzapy("topic", "write", "local.views", "--job", "job.properties", stdin="/b\t{}\n")
        until(lambda: counts() == {"/a": 2, "/b": 2}, lambda: f"{counts()} {job.errors}")
        job.terminate()
        assert job.wait() == 0, job.errors
    finally:
        job.close()
    samzapy("checkpoint", "set", "job.properties", "newest")
    (row,) = map(json.loads, samzapy("checkpoint", "show", "job.properties", "--json").splitlines())
    assert row["inputs"]["local.views[0]"]["committed"] == 3


def test_a_running_jobs_page_looks_up_keys_and_messages_with_a_read_token(samzapy, tmp_path):
    keys = {"job__page__port": 0, "job__page__links__Grafana": "https://grafana/d/1"}
    (tmp_path / "job.properties").write_text(page_view_job("shown", task__commit__ms=200, **keys))
    for stream in ("views", "out"):
        samzapy("topic", "create", f"local.{stream}", "--partitions", "1", "--job", "job.properties")
    samzapy("topic", "write", "local.views", "--job", "job.properties", stdin='/a\t{"user": "<ann>"}\n/a\t{}\n')
    job = JobProcess(tmp_path, "job.properties", "--runner", "local")

    def asked(path, **question):
        found = re.search(r"status page: (\S+)/\?token=(\S+)", job.errors)
        if found is None:
            return {}
        headers = {"authorization": f"Bearer {found[2]}"}
        return urllib3.request("GET", f"{found[1]}{path}", fields=question, headers=headers).json()

    def records(**question):
        return asked("/records", **question).get("records")

    try:
        until(lambda: asked("/status").get("processed") == 2, lambda: job.errors)
        until(lambda: [each["value"] for each in records(store="counts", key="/a")] == ["2"], lambda: job.errors)
        assert records(store="counts", key="/b") == []
        place = {"stream": "local.views", "partition": "0"}
        message, _ = records(**place, **{"from": "0", "key": "/a"})
        assert message["place"].startswith("local.views[0]@0, 20")
        assert "<ann>" in message["value"]
        assert records(**place, **{"from": "0", "key": "/b"}) == []
        assert records(store="counts", key="/a", how="history")[0]["value"] == "2"
        assert [each["key"] for each in records(store="counts", key="/", how="prefix")] == ["/a"]
        for wrong, reason in (
            ({**place, "from": "9"}, "from: local.views[0]"),
            ({**place, "partition": "x"}, "partition: expected a number from 0"),
            ({**place, "stream": "local.out"}, "the inputs are local.views"),
        ):
            assert reason in asked("/records", **wrong)["error"]
        steps = [step["name"] for step in asked("/status")["page"]["steps"]]
        assert steps == ["local.views", "PageViewCountTask", "counts"]
        assert asked("/status")["page"]["links"] == {"Grafana": "https://grafana/d/1"}
        assert asked("/status")["diagnosis"]["text"].startswith("Nothing ")
        assert "\nNothing " in samzapy("status", "job.properties")
        job.terminate()
        assert job.wait() == 0, job.errors
    finally:
        job.close()
