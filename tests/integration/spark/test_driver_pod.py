"""The driver's pod of `configs/kubernetes`, but for Kubernetes: its command on a Spark of this machine, its probes, and
its end."""

import shutil
import subprocess
from collections import Counter
from urllib.parse import urlsplit

import psutil
import pytest
import urllib3
from rigs import driver_pod
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams

from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.devkafka.broker import free_port
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(300)]

POD_IP = "127.0.0.1"
METADATA = {"status.podIP": POD_IP, "metadata.name": "page-views-5c", "metadata.namespace": "prod"}
#: Runs a program as process 1 of its own, as a container does: no signal ends that one without a handler.
FIRST = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


class DriverPod(JobProcess):
    """The driver's container. The master, the broker and the addresses that only a cluster has are replaced."""

    def __init__(self, folder, bootstrap):
        ports = {port["name"]: free_port() for port in driver_pod.container()["ports"]}
        self.name, self.ports = f"pod-{folder.name}", ports
        keys = {
            "job.name": self.name,
            "job.logged.store.base.dir": str(folder / "state"),
            "job.log.dir": str(folder / "logs"),
            "systems.kafka.consumer.bootstrap.servers": bootstrap,
            "systems.kafka.producer.bootstrap.servers": bootstrap,
            "systems.kafka.default.stream.replication.factor": "1",
            "task.inputs": f"kafka.{self.name}-in",
            # Only the end of the pod commits.
            "task.commit.ms": "600000",
            "page.views.output": f"kafka.{self.name}-out",
            "stores.counts.changelog": f"kafka.{self.name}-changelog",
            "job.spark.master": "local[3,4]",
            "job.spark.coordinator.tls.enabled": "true",
            "job.spark.coordinator.port": str(ports["coordinator"]),
            "job.page.port": str(ports["page"]),
            "job.spark.conf.spark.driver.port": str(ports["spark-driver"]),
            "job.spark.conf.spark.driver.blockManager.port": str(ports["spark-blocks"]),
        }
        first = subprocess.run([*FIRST, "true"], check=False).returncode == 0 if shutil.which(FIRST[0]) else False
        self.samzapy = (*(FIRST if first else ()), *type(self).samzapy)
        words = driver_pod.command(METADATA)[2:]
        words[0] = str(driver_pod.FOLDER / "page-views.properties")
        more = [word for key, value in keys.items() for word in ("--config", f"{key}={value}")]
        super().__init__(folder, *words, *more, **driver_pod.variables(METADATA))
        self._first = first

    def asked(self, probe):
        assert self.exit_code is None, self.errors
        return driver_pod.asked(probe, POD_IP, self.ports)

    def terminate(self):
        """SIGTERM to the first process of the pod."""
        if self._first:
            (first,) = psutil.Process(self.process.pid).children()
            first.terminate()
        else:
            super().terminate()

    def metrics(self, host):
        """The status of `/metrics` by a name of the pod, with the token that reads."""
        token = urlsplit(next(line for line in self.errors.splitlines() if "?token=" in line)).query.partition("=")[2]
        url = f"https://{POD_IP}:{self.ports['coordinator']}/metrics"
        with urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=60) as pool:
            return pool.request("GET", url, headers={"authorization": f"Bearer {token}", "host": host}).status


@pytest.fixture
def streams(kafka):
    return Streams(SystemSettings("kafka", "samzapy.system.kafka:KafkaSystemFactory", {"bootstrap.servers": kafka}))


def test_a_pod_answers_its_probes_and_commits_before_it_ends_within_its_grace_period(tmp_path, kafka, streams):
    name = f"pod-{tmp_path.name}"
    for stream in ("in", "out"):
        streams.admin.create(StreamSpec(f"{name}-{stream}", 3))
    pages = [b"/%d" % (number % 7) for number in range(1_000)]
    producer = streams.producer()
    producer.send([OutgoingRecord(f"{name}-in", page, b'{"user": "u"}') for page in pages])
    producer.flush()
    producer.close()
    pod = DriverPod(tmp_path, kafka)
    try:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            until(lambda probe=probe: pod.asked(probe) == 200, lambda: pod.errors, 120)
        assert [pod.metrics(host) for host in ("page-views.prod.svc:7070", "foreign.example")] == [200, 403]
        pod.until_status(lambda status: status["processed"] == len(pages), 120)
        assert not any(streams.replay(f"{name}-changelog"))
        pod.terminate()
        assert pod.wait(driver_pod.template()["spec"]["terminationGracePeriodSeconds"]) == 0, pod.errors
    finally:
        pod.close()
    counted = {
        page: int.from_bytes(count, "big")
        for part in streams.replay(f"{name}-changelog")
        for page, count in part.items()
    }
    assert counted == Counter(pages)
