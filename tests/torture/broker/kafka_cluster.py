"""A Kafka of three nodes, every log on all of them, so that any one of them may die."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka.admin import AdminClient

from samzapy.clock import SYSTEM_CLOCK
from samzapy.devkafka import DevBroker
from samzapy.devkafka.broker import free_port
from samzapy.devkafka.settings import new_cluster_id

NODES = 3
_LONGEST_S = 90.0
_TWO_OF_THREE = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1500",
}


class KafkaCluster:
    """Three brokers, each a controller too. A context manager."""

    def __init__(self, folder: Path):
        ports = {node: (free_port(), free_port()) for node in range(1, NODES + 1)}
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in ports.items())
        cluster_id = new_cluster_id()
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in ports.values())
        self.nodes = {
            node: DevBroker(
                folder / str(node),
                port,
                tied=True,
                cluster_id=cluster_id,
                properties={
                    "node.id": str(node),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    **_TWO_OF_THREE,
                },
            )
            for node, (port, controller) in ports.items()
        }

    def __enter__(self):
        # One alone never answers: it takes two to elect a controller. A node that is tied dies with the thread that
        # started it.
        self._starting = ThreadPoolExecutor(NODES)
        list(self._starting.map(DevBroker.start, self.nodes.values()))
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 5000})
        return self

    def __exit__(self, *exception):
        for node in self.nodes.values():
            node.kill()
        self._starting.shutdown()

    def leader(self, topic):
        """The node that leads partition 0 of the topic."""
        return self._partitions(topic)[0].leader

    def wait_until_whole(self):
        """Wait until every log is in sync on every node again."""
        began, waiting = SYSTEM_CLOCK.monotonic(), threading.Event()
        while behind := [topic for topic in self._admin.list_topics(timeout=10).topics if self._behind(topic)]:
            assert SYSTEM_CLOCK.monotonic() - began < _LONGEST_S, f"not in sync: {behind}"
            waiting.wait(0.2)

    def _behind(self, topic):
        return any(len(each.isrs) < NODES or each.leader < 0 for each in self._partitions(topic).values())

    def _partitions(self, topic):
        return self._admin.list_topics(topic, timeout=10).topics[topic].partitions
