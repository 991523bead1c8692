"""A Kafka of three nodes, each a broker and a controller, every log on all of them: any one of them may be away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewPartitions

from samzapy.clock import SYSTEM_CLOCK
from samzapy.devkafka import DevBroker
from samzapy.devkafka.broker import JVM_OPTIONS, is_free
from samzapy.devkafka.runtime import DATA, chosen_version, kafka_class_path, new_cluster_id
from samzapy.java import KAFKA, find_java
from samzapy.verify.processes import until

NODES = 3
#: Seconds until the cluster has done what was asked of it.
PATIENCE_S = 90.0
_TWO_OF_THREE = {
    "inter.broker.listener.name": "CLUSTER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLUSTER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "replica.lag.time.max.ms": "5000",
    # A busy machine answers late: nodes that time out too soon are fenced, and the cluster is never whole.
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}


class Node(DevBroker):
    """A node. `start` returns when the node answers, and one alone never does: two elect a controller."""

    #: The last one of a kind counts. Resident, a node takes less than 400 MB.
    jvm_options = (*JVM_OPTIONS, "-Xms64m", "-Xmx256m")

    def __init__(self, folder: Path, address: str, port: int, properties: Mapping[str, str], cluster_id: str) -> None:
        self.address, self.folder = address, folder
        super().__init__(folder, port, tied=True, cluster_id=cluster_id, properties=properties)

    def freeze(self) -> None:
        """Stop it in its tracks: connections to it stay, and nothing is answered."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def _send(self, what: signal.Signals) -> None:
        running = self.running
        assert running is not None, f"{self.address} does not run"
        os.kill(running.pid, what)

    def quorum(self) -> tuple[int, int]:
        """(epoch, node) of the newest controller that this node knows of, running or not; (-1, -1) if none."""
        with suppress(OSError, ValueError):
            state = json.loads((self.folder / DATA / "__cluster_metadata-0" / "quorum-state").read_text())
            if state["leaderId"] > 0:
                return state["leaderEpoch"], state["leaderId"]
        return -1, -1


class KafkaCluster:
    """Three nodes on 127.0.0.11 to 13, at ports of their own. A context manager.

    `disks`: bytes of the disk of a node, for the nodes that get one of their own if this user may mount one.
    """

    def __init__(self, folder: Path, disks: Mapping[int, int] | None = None) -> None:
        ports = _free_ports()
        hosts = {node: f"127.0.0.{10 + node}" for node in range(1, NODES + 1)}
        voters = ",".join(f"{node}@{host}:{ports[node][2]}" for node, host in hosts.items())
        cluster_id = new_cluster_id()
        self.bootstrap = ",".join(f"{host}:{ports[node][1]}" for node, host in hosts.items())
        self.disks = {node: SmallDisk(folder / str(node) / DATA, size) for node, size in (disks or {}).items()}
        self.nodes: dict[int, Node] = {}
        for node, host in hosts.items():
            probed, port, controller = ports[node]
            clients = f"PLAINTEXT://127.0.0.1:{probed},CLUSTER://{host}:{port}"
            properties = {
                "node.id": str(node),
                "controller.quorum.voters": voters,
                "listeners": f"{clients},CONTROLLER://{host}:{controller}",
                "advertised.listeners": clients,
                **_TWO_OF_THREE,
            }
            self.nodes[node] = Node(folder / str(node), f"{host}:{port}", probed, properties, cluster_id)

    def __enter__(self) -> KafkaCluster:  # noqa: PYI034  typing.Self is newer than Python 3.10
        # A node that is tied dies with the thread that has started it: these threads last as long as the cluster.
        self._starting = ThreadPoolExecutor(NODES)
        try:
            self.disks = {node: disk for node, disk in self.disks.items() if disk.mount()}
            self.start(*self.nodes)
        except BaseException:
            self.__exit__()
            raise
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 5000, "log_level": 0})
        return self

    def __exit__(self, *exception: object) -> None:
        for node in self.nodes.values():
            node.kill()
        self._starting.shutdown()
        for disk in self.disks.values():
            disk.unmount()

    def start(self, *nodes: int) -> None:
        """Start these, all at once, until each of them answers."""
        list(self._starting.map(lambda node: self.nodes[node].start(), nodes))

    def kill(self, *nodes: int) -> None:
        """End these as a crash would."""
        for node in nodes:
            self.nodes[node].kill()

    def controller(self) -> int:
        """The node that is the active controller, or was the last one."""
        return max(node.quorum() for node in self.nodes.values())[1]

    def elect_preferred(self) -> int:
        """Have each partition led by its preferred node again; how many leaders have moved. Every node must serve."""
        results = self._admin.elect_leaders(ElectionType.PREFERRED).result(PATIENCE_S)
        return sum(error is None for error in results.values())

    def quota(self, client_id: str | None, limits: Mapping[str, float | None]) -> None:
        """Limit every client with this id, or every client without a limit of its own (None), until it is lifted (a
        limit None).

        `limits`: `producer_byte_rate` and `consumer_byte_rate` in bytes per second, `request_percentage`.
        """
        client = ["--entity-default"] if client_id is None else ["--entity-name", client_id]
        lifted = ",".join(key for key, limit in limits.items() if limit is None)
        given = ",".join(f"{key}={limit}" for key, limit in limits.items() if limit is not None)
        command = [str(find_java(KAFKA).command), "-cp", kafka_class_path(chosen_version(None))]
        command += ["kafka.admin.ConfigCommand", "--bootstrap-server", self.bootstrap, "--alter"]
        command += ["--entity-type", "clients", *client]
        command += [f"--delete-config={lifted}"] * bool(lifted) + [f"--add-config={given}"] * bool(given)
        subprocess.run(command, check=True, capture_output=True)

    def wait_until_whole(self) -> float:
        """Wait until every node serves and every log is in sync on all nodes that it is on; since when, by the
        monotonic clock.

        It counts if it stays so for a second: a node that was away may answer with what it knew before.
        """
        since: list[float] = []

        def whole() -> bool:
            now = SYSTEM_CLOCK.monotonic()
            if self._behind():
                since.clear()
            else:
                since.append(now)
            return bool(since) and now - since[0] >= 1.0

        until(whole, lambda: f"not in sync: {self._behind()}", PATIENCE_S)
        return since[0]

    def _behind(self) -> list[str]:
        metadata = self._admin.list_topics(timeout=PATIENCE_S)
        away = [f"node {node}" for node in self.nodes if node not in metadata.brokers]
        logs = {
            f"{topic.topic}[{n}]": each for topic in metadata.topics.values() for n, each in topic.partitions.items()
        }
        return away + [log for log, each in logs.items() if each.leader < 0 or len(each.isrs) < len(each.replicas)]


class SmallDisk:
    """A disk of `size` bytes at `place`, in memory. Only root may mount one."""

    def __init__(self, place: Path, size: int) -> None:
        self.place, self.size = place, size
        self._filler = place / "filler"
        self._mounted = False

    def mount(self) -> bool:
        """Have it there; False if this user may not."""
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        options = f"size={self.size},mode=700"
        command = ["mount", "-t", "tmpfs", "-o", options, "samzapy-tests", str(self.place)]
        self._mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        return self._mounted

    def unmount(self) -> None:
        """Have it gone, with what is on it."""
        if self._mounted:
            subprocess.run(["umount", "--lazy", str(self.place)], check=True, capture_output=True)
            self._mounted = False

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filler.open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(1 << 12))

    def make_room(self) -> None:
        """Free what `fill` has taken."""
        self._filler.unlink()


def grow_topic(servers: str, topic: str, partitions: int) -> None:
    """Add partitions to a topic."""
    client = AdminClient({"bootstrap.servers": servers})
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE_S)
    until(lambda: len(client.list_topics(topic).topics[topic].partitions) == partitions, lambda: topic)


def _free_ports() -> dict[int, tuple[int, int, int]]:
    """(probed on 127.0.0.1, for clients, of the controller) per node. They lie below the ports of outgoing connections,
    of which one could take the port of a node that is away."""
    for first in range(20_000 + os.getpid() % 1_000 * 10, 32_000, 10):
        ports = range(first, first + NODES * 3)
        if all(is_free(port) for port in ports):
            return {
                node: (ports[3 * node - 3], ports[3 * node - 2], ports[3 * node - 1]) for node in range(1, NODES + 1)
            }
    raise AssertionError("no port is free")
