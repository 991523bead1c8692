"""A real Prometheus scrapes a container and the driver of a running job, with the token that reads."""

import json
import os
import subprocess
from contextlib import closing
from urllib.request import urlopen

import pytest
from prometheus_tools import prometheus_tool
from rigs.job_process import JobProcess

from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.coordinator.web.access import Tokens
from samzapy.devkafka.broker import free_port
from samzapy.system.local.factory import LocalSystemFactory
from samzapy.verify.processes import until

pytestmark = pytest.mark.slow

TOKEN = "the-one-that-acts"
JOB = """\
job.name=scraped
task.class=idle_task:Idle
task.inputs=local.in
systems.local.samza.factory=local
systems.local.path=log.db
systems.local.samza.msg.serde=string
task.commit.ms=500
"""
TASK = """\
from samzapy.api.task import StreamTask

class Idle(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass
"""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    return prometheus_tool("prometheus", tmp_path_factory.mktemp("prometheus"))


@pytest.fixture
def job(tmp_path):
    (tmp_path / "idle_task.py").write_text(TASK)
    (tmp_path / "job.properties").write_text(JOB)
    settings = SystemSettings("local", "", properties={"path": str(tmp_path / "log.db")})
    with closing(LocalSystemFactory().admin(settings, "tests")) as admin:
        admin.create(StreamSpec("in", 1))
    container, driver = free_port(), free_port()
    keys = {"metrics.prometheus.port": container, "job.page.port": driver}
    options = [word for key, value in keys.items() for word in ("--config", f"{key}={value}")]
    arguments = ("job.properties", "--runner", "local", "--py-files", "idle_task.py", *options)
    running = JobProcess(tmp_path, *arguments, SAMZAPY_TOKEN=TOKEN)
    running.until_status(lambda status: status["containers"][0]["phase"] == "running")
    yield {"container": container, "driver": driver}
    running.close()


def started(prometheus, folder, targets, credentials):
    scrapes = [
        {
            "job_name": name,
            "honor_labels": True,
            "authorization": {"credentials": credentials},
            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
        }
        for name, port in targets.items()
    ]
    # YAML reads JSON.
    (folder / "prometheus.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}))
    port = free_port()
    own = [f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={folder / 'data'}"]
    command = [prometheus, f"--config.file={folder / 'prometheus.yml'}", *own]
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return process, f"http://127.0.0.1:{port}/api/v1/query?query="


def asked(url, query):
    try:
        with urlopen(url + query, timeout=10) as answer:
            return {found["metric"].get("job", ""): found["value"][1] for found in json.load(answer)["data"]["result"]}
    except OSError:
        return {}


@pytest.mark.parametrize(("token", "up"), [("read", "1"), ("cookie", "0")])
def test_prometheus_scrapes_with_the_token_that_reads_and_with_no_other(prometheus, job, tmp_path, token, up):
    process, url = started(prometheus, tmp_path, job, getattr(Tokens(TOKEN), token))
    try:
        expected = {"container": up, "driver": up}
        until(lambda: asked(url, "up") == expected, lambda: f"{expected}, not {asked(url, 'up')}")
        if up == "1":
            until(
                lambda: "scraped" in asked(url, "samzapy_commits_total"),
                lambda: f"{asked(url, 'samzapy_commits_total')}",
            )
    finally:
        process.terminate()
        process.wait(30)
