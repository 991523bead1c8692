"""A job on a Spark cluster of two hosts, each with local state of its own: a host keeps its tasks, is lost, comes
back."""

import re
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from rigs.numbered_job import NumberedJob
from rigs.numbered_stream import KEYS, STORES
from standalone_cluster import StandaloneCluster

from samzapy.cli.main import cli

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(500)]

HERE, THERE = "127.0.0.2", "127.0.0.3"
PARTITIONS = 4
COPIES = {f"Partition_{number}.standby-1" for number in range(PARTITIONS)}
WAIT_S = 120.0
_RESTORED = re.compile(r"container (\d): restored ([\d,]+) records in \S+ s from (.+)")


class Scene(NumberedJob):
    """One job on the cluster; `containers` of it, and perhaps copies of each task."""

    def __init__(self, cluster: StandaloneCluster, folder: Path, bootstrap: str, **keys: str) -> None:
        self.cluster = cluster
        hosts = {
            "job.spark.master": cluster.master,
            "job.spark.lease.ms": "10000",
            "job.spark.conf.spark.driver.host": "127.0.0.1",
            "job.spark.conf.spark.driver.bindAddress": "127.0.0.1",
            "job.spark.conf.spark.executor.memory": "512m",
            "job.spark.conf.spark.pyspark.python": sys.executable,
            "job.host-affinity.enabled": "true",
        }
        super().__init__(folder, f"hosts-{folder.name}", bootstrap, PARTITIONS, **{**hosts, **keys})

    def run(self) -> dict[str, str]:
        """Write some, run to the end; where each container has its state from, by container."""
        self.write()
        run = self.start("--until-end")
        try:
            assert run.wait(WAIT_S) == 0, run.errors
        finally:
            run.close()
        return {container: source for container, _, source in _RESTORED.findall(run.output + run.errors)}

    def tasks_on(self, host: str) -> set[str]:
        """The tasks with stores on that host."""
        return {path.name for path in self.cluster.state(host).glob(f"{self.name}-1/counts/Partition_?")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = StandaloneCluster(tmp_path_factory.mktemp("cluster"), [HERE, THERE])
    yield made
    made.close()


def test_executors_on_other_hosts_report_over_tls_with_their_certificate(cluster, tmp_path, kafka):
    scene = Scene(cluster, tmp_path, kafka, **{"job.container.count": "2"})
    scene.write()
    run = scene.start("--until-end", "--json")
    try:
        assert run.wait(WAIT_S) == 0, run.errors
    finally:
        run.close()
    page = re.search(r"^status page: https://127\.0\.0\.1:\d+/\?token=[^#]+#[0-9a-f]{64}$", run.errors, re.MULTILINE)
    assert page is not None, run.errors
    scene.check()


def test_executors_run_in_the_environment_that_was_packed_for_them(cluster, tmp_path, kafka):
    packed = CliRunner().invoke(cli, ["pack", str(tmp_path / "env.tar.gz")], catch_exceptions=False)
    assert packed.exit_code == 0, packed.stderr
    assert "pyspark" not in {name.partition("-")[0] for name in packages_in(tmp_path / "env.tar.gz")}
    python = {"job.spark.conf.spark.pyspark.python": "./env/bin/python"}
    scene = Scene(cluster, tmp_path, kafka, **{"job.spark.conf.spark.archives": f"{tmp_path}/env.tar.gz#env", **python})
    scene.run()
    scene.check()


def packages_in(archive: Path) -> set[str]:
    """The entries of site-packages in an archive."""
    with tarfile.open(archive) as tar:
        return {name.split("/")[3] for name in tar.getnames() if name.startswith("lib/")}


def test_containers_go_to_the_host_of_their_state_or_elsewhere_without_it(cluster, tmp_path, kafka):
    scene = Scene(cluster, tmp_path, kafka, **{"job.container.count": "2"})
    scene.run()
    here, there = scene.tasks_on(HERE), scene.tasks_on(THERE)
    assert len(here) == len(there) == 2
    assert not here & there
    for _ in range(2):
        assert set(scene.run().values()) == {"local store"}
        assert (scene.tasks_on(HERE), scene.tasks_on(THERE)) == (here, there)
    cluster.lose_host(THERE)
    assert sorted(scene.run().values()) == ["changelog", "local store"]
    assert scene.tasks_on(HERE) == here | there
    # Both containers prefer the host that has kept running. If it has room for one, the other goes to the host that
    # came back: there it reads the tail of what it left there, or everything if it was never there.
    cluster.start_host(THERE)
    sources = sorted(scene.run().values())
    assert sources[-1] in {"local store", "local store + changelog"}
    assert "local store" in sources
    scene.check()


@pytest.mark.parametrize("fault", ["lost", "hangs"])
def test_a_standby_takes_over_from_a_failed_host_and_a_new_one_follows_it(cluster, tmp_path, kafka, fault):
    keys = {"job.standbytasks.replication.factor": "2", "task.guarantee": "exactly-once"}
    scene = Scene(cluster, tmp_path, kafka, **keys)
    scene.write()
    run = scene.start()

    def settled(after: int = 0) -> dict:
        """Everything written is processed, and copied by a standby of a later epoch."""
        ends = scene.streams.ends(f"{scene.name}-in")

        def done(status):
            ((active,), (standby,)) = status["containers"], status["standbys"]
            at_end = all(active["positions"].get(ssp, 0) >= end for ssp, end in ends.items())
            copied = standby["phase"] == "running" and standby["remaining"] == 0 and (standby["epoch"] or 0) > after
            return active["phase"] == "running" and at_end and copied and sum(standby["positions"].values()) >= KEYS

        return run.until_status(done, WAIT_S)

    try:
        before = settled()
        (failing,) = (host for host in (HERE, THERE) if scene.tasks_on(host))
        other = THERE if failing == HERE else HERE
        scene.write()
        if fault == "lost":
            cluster.lose_host(failing)
            come_back = partial(cluster.start_host, failing)
        else:
            come_back = cluster.hang_host(failing)

        def taken_over(status):
            return [r for r in status["restored"] if r["epoch"] > before["containers"][0]["epoch"]]

        stores = run.until_status(lambda status: len(taken_over(status)) == PARTITIONS * len(STORES), WAIT_S)
        assert {store["source"].split(" + ")[0] for store in taken_over(stores)} == {"standby"}
        assert len(scene.tasks_on(other)) == PARTITIONS
        scene.write()
        come_back()
        scene.write()
        settled(after=before["standbys"][0]["epoch"])
        assert {path.name for path in cluster.state(failing).glob(f"{scene.name}-1/counts/*.standby-1")} == COPIES
        run.terminate()
        assert run.wait(WAIT_S) == 0, run.errors
    finally:
        run.close()
    scene.check()
