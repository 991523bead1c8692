"""The peers, in the order of the table: samzapy's own jobs first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.peers.launchers import (
    KEYED_COUNT,
    LIMIT,
    PASS_THROUGH,
    PIPELINED,
    REPARTITIONED,
    CompiledPeer,
    Launcher,
    MavenPeer,
    PythonPeer,
    SamzapyPeer,
    pinned,
)

_FLINK = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.io", "java.nio", "java.util", "java.util.concurrent", "java.time")
)
_FLINK_KEEPS = (
    "state in RocksDB, changed on disk with each message; kept by checkpoints in files, here on the same disk: "
    "no changelog"
)


@dataclass(frozen=True)
class Peer:
    """`name` and `version` for the table, `keeps` by workload: what it does less or more than samzapy's first row. It
    takes part in these workloads."""

    name: str
    version: str
    launcher: Launcher
    keeps: Mapping[str, str]

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}".strip()


def _samzapy(name: str, keyed_count: str, pass_through: str, keys: Mapping[str, str], does: str) -> Peer:
    tasks = {KEYED_COUNT: keyed_count, PASS_THROUGH: pass_through}
    return Peer(name, "", SamzapyPeer(tasks, keys), _both(does, does))


def _pipeline(name: str, keys: Mapping[str, str], does: str) -> Peer:
    tasks = {PASS_THROUGH: PIPELINED, REPARTITIONED: PIPELINED}
    return Peer(name, "", SamzapyPeer(tasks, keys), {PASS_THROUGH: _CLASS, REPARTITIONED: does})


def _spark(name: str, engine: str, keeps: Mapping[str, str]) -> Peer:
    return Peer(name, _SPARK, PythonPeer("spark_peer.py", _PYSPARK, {"engine": engine}, "spark.xml"), keeps)


def _both(keyed_count: str, pass_through: str = "", repartitioned: str = "") -> Mapping[str, str]:
    more = {REPARTITIONED: repartitioned} if repartitioned else {}
    return {KEYED_COUNT: keyed_count, PASS_THROUGH: pass_through, **more}


_KSTREAMS = MavenPeer("kstreams.xml", "KafkaStreamsPeer")
_SQL = MavenPeer("flink.xml", "FlinkSqlPeer", jvm=_FLINK)
_SAMZA = MavenPeer("samza.xml", "SamzaPeer")
_SPARK = pinned("spark.xml")
# Spark does not work with pandas 3 yet.
_PYSPARK = (f"pyspark=={_SPARK}", "pandas==2.3.3", "pyarrow==26.0.1", "protobuf==7.36.2")

_STREAM = "RocksDB and changelog, through a topic"
_IN_MEMORY = "state as for keyed-count; messages change places in memory, not through a topic"
_SPARK_KEEPS = (
    "state in RocksDB, kept with its changes in files; changed counts to a topic, at least once; 200,000 messages a "
    "micro-batch"
)
_MINI = "the same, counted in batches of up to 20,000 messages or 2 s"
_CLASS, _BATCHES = "the same with a class of its own for events", "the same, a batch at a time"
_TYPES = {f"streams.{{{topic}}}.samza.msg.type": "benchmarks.bare.events:Event" for topic in ("input", "output")}

PEERS: tuple[Peer, ...] = (
    _samzapy("samzapy", "KeyedCount", "PassThrough", {}, "RocksDB and changelog; dicts, message by message"),
    _samzapy(
        "samzapy, exactly-once",
        "KeyedCount",
        "PassThrough",
        {"task.guarantee": "exactly-once"},
        "the same in transactions",
    ),
    _samzapy("samzapy, typed", "TypedKeyedCount", "TypedPassThrough", _TYPES, _CLASS),
    _samzapy("samzapy, typed batch", "TypedKeyedCountBatch", "TypedPassThroughBatch", _TYPES, _BATCHES),
    _pipeline("samzapy, pipeline", {}, "RocksDB and changelog, totals through a stream; a class of its own for events"),
    _pipeline("samzapy, pipeline, exactly-once", {"task.guarantee": "exactly-once"}, "the same in transactions"),
    Peer(
        "Kafka Streams",
        _KSTREAMS.version,
        _KSTREAMS,
        _both("RocksDB and changelog, record cache of 10 MiB; maps by Jackson", "maps by Jackson", _STREAM),
    ),
    Peer(
        "Kafka Streams, typed",
        _KSTREAMS.version,
        MavenPeer("kstreams.xml", "KafkaStreamsPeer", {"typed": "yes"}),
        _both(_CLASS, "a class of its own for events", "the same with a class of its own for events"),
    ),
    Peer("Flink SQL", _SQL.version, _SQL, _both(f"{_FLINK_KEEPS}; typed columns", "typed columns", _IN_MEMORY)),
    Peer(
        "Flink SQL, mini-batches",
        _SQL.version,
        MavenPeer("flink.xml", "FlinkSqlPeer", {"mini-batch": "yes"}, _FLINK),
        _both(_MINI, "typed columns; nothing to batch", f"{_IN_MEMORY}; counted in batches"),
    ),
    _spark(
        "Spark SQL",
        "sql",
        _both(f"{_SPARK_KEEPS}; typed columns", "typed columns; at least once", f"{_SPARK_KEEPS}; typed columns"),
    ),
    _spark("Spark, transformWithState, rows", "rows", {KEYED_COUNT: f"{_SPARK_KEEPS}; rows in Python"}),
    _spark("Spark, transformWithState, pandas", "pandas", {KEYED_COUNT: f"{_SPARK_KEEPS}; data frames in Python"}),
    Peer(
        "Apache Samza",
        _SAMZA.version,
        _SAMZA,
        _both("RocksDB and changelog, cache of 1,000 objects; maps by Jackson", "maps by Jackson"),
    ),
    Peer(
        "Quix Streams",
        "3.28.1",
        PythonPeer("quix_peer.py", ("quixstreams==3.28.1",)),
        _both("RocksDB and changelog; dicts by the standard JSON module", "dicts", _STREAM),
    ),
    Peer(
        "Bytewax",
        "0.21.1",
        PythonPeer("bytewax_peer.py", ("bytewax[kafka]==0.21.1",)),
        _both(
            "less: state in memory, snapshots in SQLite files, no changelog; dicts by the standard JSON module", "dicts"
        ),
    ),
    Peer(
        "Pathway",
        "0.33.0",
        PythonPeer("pathway_peer.py", ("pathway==0.33.0",)),
        _both(
            "less: state in memory, nothing kept; typed columns in batches of 1.5 s; its engine's start is counted",
            "less: no positions are kept; typed columns; its engine's start is counted",
        ),
    ),
    Peer(
        "C++ loop, the limit",
        "",
        CompiledPeer(LIMIT),
        _both(
            "less: counts in a hash map, changelog; no positions, nothing on disk, nothing restored; parses one field",
            "less: no positions; parses one field and copies the rest",
        ),
    ),
)  # fmt: skip
