"""The four guarantees on a cluster of three nodes that lag behind one another, and that loses the leader of what
matters, again and again."""

import threading
from contextlib import contextmanager
from itertools import cycle

import psutil
import pytest
from live_ledger import LiveLedger
from outcomes import GUARANTEES
from rigs.kafka_cluster import KafkaCluster

from samzapy.api.system import StreamSpec, SystemSettings
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka

THREE_COPIES = {"stores.ledger.changelog.replication.factor": "3", "task.checkpoint.replication.factor": "3"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with KafkaCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@contextmanager
def stuttering(cluster):
    """The nodes are stopped for a moment in turns, so that each is behind the others again and again."""
    over = threading.Event()

    def stutter():
        for process in cycle([psutil.Process(node.running.pid) for node in cluster.nodes.values()]):
            process.suspend()
            ended = over.wait(0.15)
            process.resume()
            if ended or over.wait(0.03):
                return

    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_topic_is_there_for_whoever_made_it_or_was_told_that_it_exists(cluster):
    properties = {"bootstrap.servers": cluster.bootstrap}
    settings = SystemSettings("kafka", "kafka", consumer=properties, producer=properties)
    admins = [KafkaSystemFactory().admin(settings, name) for name in ("one", "another")]
    with stuttering(cluster):
        for number in range(40):
            spec = StreamSpec(f"made-{number}", 2, replication_factor=3)
            for admin in admins:
                admin.create(spec)
                assert admin.describe(spec.stream).partitions == 2
    for admin in admins:
        admin.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_job_starts_on_nodes_that_are_behind_one_another(cluster, guarantee, outcome, tmp_path):
    job = LiveLedger(cluster.bootstrap, cluster.bootstrap, tmp_path, guarantee, **THREE_COPIES)
    with stuttering(cluster):
        job.send(20)
        job.start()
        recovery_s = job.catch_up()
    assert job.failures == []
    outcome(
        "nodes behind one another at the start",
        guarantee=guarantee,
        system="kafka",
        events=job.sent,
        faults=1,
        recovery_s=recovery_s,
        **job.finish(),
    )
    job.close()
