"""What is measured, in the order of the table: the pass-through of `benchmarks.peers`, event by event or in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.peers.launchers import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PASS_THROUGH,
    Launcher,
    MavenPeer,
    PythonPeer,
    SamzapyPeer,
    Settings,
)
from samzapy.bench.measuring import SPARK

GUARANTEES = (AT_LEAST_ONCE, EXACTLY_ONCE)
#: Milliseconds between commits.
COMMITS_MS = (100, 1_000)


class NoPeer(Launcher):
    """Nothing: the reader reads the input. What that takes is in every other figure, too."""

    def install(self) -> None:
        """There is nothing to install."""

    def command(self, settings: Settings) -> list[str]:
        return ["sleep", "infinity"]


@dataclass(frozen=True)
class Entry:
    """A row of the tables, and the tables that it is in. Its `launcher` is for the pass-through."""

    name: str
    launcher: Launcher
    guarantees: Sequence[str] = GUARANTEES
    commits_ms: Sequence[int] = COMMITS_MS

    @property
    def is_direct(self) -> bool:
        """Whether the input is what is read."""
        return isinstance(self.launcher, NoPeer)


def _peer(name: str) -> Peer:
    return next(peer for peer in PEERS if peer.name == name)


def _like(name: str, *cases: Any) -> Entry:
    """`cases`: its guarantees and commits, if not all."""
    peer = _peer(name)
    return Entry(peer.label, peer.launcher, *cases)


def _spark(name: str, engine: str) -> Entry:
    """Its commits are its micro-batches, and its sink is at-least-once."""
    peer = _peer("Spark SQL")
    assert isinstance(peer.launcher, PythonPeer)
    launcher = PythonPeer(peer.launcher.program, peer.launcher.requirements, {"engine": engine}, peer.launcher.pom)
    return Entry(f"{name} {peer.version}", launcher, (AT_LEAST_ONCE,), COMMITS_MS[-1:])


_ON_SPARK = SamzapyPeer({PASS_THROUGH: "PassThrough"}, {"job.spark.master": "local[1]"}, SPARK)
_NO_LINGER = MavenPeer("kstreams.xml", "KafkaStreamsPeer", {"linger": "none"})

ENTRIES: tuple[Entry, ...] = (
    Entry("no system: the input itself", NoPeer(), (AT_LEAST_ONCE,), COMMITS_MS[-1:]),
    _like("samzapy"),
    _like("samzapy, typed batch"),
    _like("samzapy, pipeline"),
    Entry("samzapy on Spark local[1]", _ON_SPARK),
    _like("Kafka Streams"),
    Entry(f"Kafka Streams {_NO_LINGER.version}, linger.ms=0", _NO_LINGER),
    _like("Flink SQL"),
    _like("Quix Streams"),
    _like("C++ loop, the limit", (AT_LEAST_ONCE,), COMMITS_MS[-1:]),
    _spark("Spark SQL, micro-batches without a pause", "sql"),
    _spark("Spark SQL, real-time mode", "real-time"),
)
