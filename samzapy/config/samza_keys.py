"""Keys that samzapy does not read: Samza's keys without effect, refused ones, and keys of earlier versions.

1. A key without effect is a warning, so a Samza job file can be used unchanged.
2. A refused key would change what a job does: a problem, unless its value is neutral.
3. A removed key, of samzapy or of Samza before 0.8, is a problem that says what to do instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NO_EFFECT: tuple[tuple[str, str], ...] = (
    (r"app\.(class|runner\.class|mode|run\.id)", "a job is its task.class; `samzapy run` is the runner"),
    (r"job\.factory\.class", "--runner and job.spark.master say where containers run"),
    (
        r"job\.coordinator\.monitor-input-regex\.frequency\.ms",
        "job.inputs.refresh.ms has the driver look for new inputs",
    ),
    (r"job\.(coordinator|jmx|autosizing|debounce|security|diagnostics|drain-monitor)\..*", "no counterpart"),
    (r"job\.coordinator\..*|job\.checkpoint\.validation\.enabled", "no counterpart"),
    (
        r"job\.config\.rewriter\..*",
        "samzapy takes one file and --config key=value; of rewriters it knows RegExTopicGenerator",
    ),
    (r"job\.container\.(thread|commit|restore|heartbeat|task)\..*", "a container has one thread"),
    (
        r"job\.systemstreampartition\.input\.expansion\.enabled",
        "with state, new partitions always go to their keys' tasks",
    ),
    (r"job\.systemstreampartition\.matcher\.config\..*|job\.system\.stream\..*", "no counterpart"),
    (r"(yarn|cluster-manager|container|blob\.store|fs)\..*", "Spark places and limits containers"),
    (r"task\.(opts|java\.home|execute|command\.class|log4j\..*)", "there is no JVM to launch"),
    (r"task\.checkpoint\.segment\.bytes", "use systems.SYSTEM.default.stream.segment.bytes"),
    (r"task\.live\.checkpoint\.max\.age", "there is one checkpoint format"),
    (r"task\.checkpoint\.read\.versions", "a start reads samzapy's records or Samza's version 1, whichever are newer"),
    (r"task\.transactional\.state\..*", "local stores never hold more than what was committed"),
    (r"task\.commit\.timeout\.ms|task\.commit\.skip\..*", "a commit is never skipped"),
    (r"task\.(callback\.(watermark|drain)|watermark\.quorum)\..*", "no counterpart"),
    (r"task\.(poll\.interval\.ms|name\.grouper\.factory)", "no counterpart"),
    (r"systems\.[^.]+\.(.+\.)?samza\.delete\.committed\.messages", "no counterpart"),
    (r"streams\.[^.]+\.samza\.delete\.committed\.messages", "no counterpart"),
    (
        r"stores\.(.+\.)?(backup|restore)\.factories",
        "stores.X.changelog and stores.X.backup.path say where state is kept",
    ),
    (r"stores\.(.+\.)?accesslog\..*", "calls of a store are not logged"),
    (r"metrics\.timer\..*", "timers are always on"),
)
_REFUSED: tuple[tuple[str, str], ...] = (
    (
        r"stores\..+\.side\.inputs\.processor\.serialized\.instance",
        "it is an object of the JVM: name a SideInputsProcessor class in side.inputs.processor.factory",
    ),
    (r"job\.elasticity\.factor", "elasticity is not supported: leave it out or set 1"),
    (
        r"job\.systemstreampartition\.matcher\.class",
        "not supported: a job reads every partition of its inputs; leave it out, and skip the others in process",
    ),
    (
        r"job\.config\.rewriters",
        "not supported but for RegExTopicGenerator: write what the rewriter would, with ${env:NAME} for variables",
    ),
    (
        r"job\.config\.loader\..*",
        "not supported: start the job with the file that it would load, and --config key=value for single keys",
    ),
    (
        r"(streams|systems\.[^.]+\.streams)\..+\.samza\.broadcast",
        "not supported: name the stream's partitions in task.broadcast.inputs",
    ),
)
#: The keys of earlier versions that are gone, each with what to do instead. `*` stands for one part.
REMOVED: Mapping[str, str] = {
    "serializers.registry.*.cache.dir": "leave it out; schemas are kept in memory, and a start asks the registry",
    "job.spark.class.archive": "leave it out; from Java 19 on a JVM keeps such an archive by itself, with "
    "-XX:+AutoCreateSharedArchive -XX:SharedArchiveFile=FILE in job.spark.conf.spark.driver.extraJavaOptions",
    "job.spark.archives": "use job.spark.conf.spark.archives",
    "job.spark.resubmit.backoff.ms": "the first pause of several in a row is 1 s",
    "job.spark.resubmit.backoff.max.ms": "the longest pause is 30 s",
    "job.spark.start.timeout.ms": "Spark may take 10 minutes to start",
    "job.orphaned.stores.ttl.ms": "a store is set aside after 7 days without use",
    "job.clock.stall.ms": "a warning comes after 2 minutes",
    "job.clock.idle.ms": "use task.watermark.idle.timeout.ms, which timers and watermarks obey as well",
    "job.log.max.bytes": "a log file has at most 10 MiB",
    "job.log.files": "5 older log files are kept",
    "job.lag.interval.ms": "a container measures its lag every 5 s",
    "job.query.page.max.bytes": "a page has at most 1 MiB",
    "job.query.page.max.entries": "a page has at most 1,000 entries",
    "job.query.timeout.ms": "a container may take 5 s to answer",
    "metrics.prometheus.host": "a container listens at the executor's address, or at loopback for a master on this "
    "machine",
    "metrics.prometheus.open": "set SAMZAPY_TOKEN for the driver, and give Prometheus the token that reads",
    "metrics.prometheus.max.series": "the driver serves the series of the job, of containers and of partitions",
    "metrics.reporter.*.endpoint": "set OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, for executors as "
    "job.spark.conf.spark.executorEnv.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "task.checkpoint.max.message.bytes": "use systems.SYSTEM.default.stream.max.message.bytes",
    "task.failure.same.max": "the job ends after 4 failed attempts with the same exception at the same message",
    "task.error.*.retries": "write the number into the policy: retry(3, 100ms) then fail",
    "task.error.*.backoff.ms": "write the pause into the policy: retry(3, 100ms) then fail",
    "task.timers.store": "a job has one store with the factory timers",
    "state.checkpoint.store.factory": "the states are in a topic next to the positions",
    "state.checkpoint.path": "the states are in a topic next to the positions",
    "state.checkpoint.system": "the states are next to the positions: task.checkpoint.system",
    "state.checkpoint.replication.factor": "the topic has as many copies as that of the positions: "
    "task.checkpoint.replication.factor",
    "serializers.registry.*.timeout.ms": "the registry may take 10 s to answer",
    "serializers.registry.*.retries": "a request is repeated 3 times",
    "serializers.registry.*.references": "register the schema with its references, and leave it out of the job file",
    "systems.*.busy.timeout.ms": "a writer waits 30 s for another one",
    "stores.*.flush.records": "at most 400,000 changes are only in memory; flush.interval.ms limits their age",
    "stores.*.restore.max.bytes": "a restore takes at most 384 MiB for the records that it gathers",
    "stores.*.heap.block.size": "a block has at most 64 items",
    "stores.*.batch.size": "use write.batch.size",
    "stores.*.serde": "use key.serde and msg.serde",
    "stores.*.system": "name the system in the changelog: SYSTEM.STREAM",
    "stores.*.leveldb.block.cache.size": "use container.cache.size.bytes, for all tasks of a container together",
    "stores.*.leveldb.write.buffer.size": "use container.write.buffer.size.bytes, "
    "for all tasks of a container together",
    "stores.*.leveldb.block.size": "use rocksdb.block.size.bytes",
    "stores.*.leveldb.compress": "use rocksdb.compression",
    "stores.*.backup.commits": "use backup.interval.ms",
    "stores.*.backup.kept": "the last 2 snapshots are kept",
}
#: Parts of the regular expressions and their readable form, replaced in this order.
_READABLE = (
    (r"(\..*)?", "[.*]"),
    (r"(.+\.)?", "[*.]"),
    (r"\.", "."),
    (r"[^.]+", "*"),
    (r".+", "*"),
    (r".*", ".*"),
)
_NEUTRAL = {"", "1", "false"}
#: Keys with an effect below keys without one.
_WITH_EFFECT = ("yarn.container.count", "container.cache.", "container.rocksdb.")


def no_effect(key: str) -> str | None:
    """The reason why Samza's `key` has no effect here; None for any other key."""
    if key.startswith(_WITH_EFFECT):
        return None
    return next((reason for regex, reason in _NO_EFFECT if re.fullmatch(regex, key)), None)


def refused(key: str, value: str) -> str | None:
    """The reason why a job with this key is refused; None if it is not."""
    if value in _NEUTRAL:
        return None
    return next((reason for regex, reason in _REFUSED if re.fullmatch(regex, key)), None)


def removed(key: str) -> str | None:
    """What to do without this key of an earlier version; None for any other key."""
    shape = key.split(".")
    for name, advice in REMOVED.items():
        parts = name.split(".")
        if len(parts) == len(shape) and all(part in {"*", own} for part, own in zip(parts, shape, strict=True)):
            return f"no key any more: {advice}"
    return None


def is_refusable(key: str) -> bool:
    """Whether samzapy refuses `key` unless its value is neutral."""
    return any(re.fullmatch(regex, key) for regex, _ in _REFUSED)


def unsupported() -> list[tuple[str, str, str]]:
    """Samza's keys that have no effect or are refused, sorted: (key, warning or refused, reason).

    In a key `*` stands for any part, and `a|b` for either.
    """
    ignored = [(_readable(regex), "warning", reason) for regex, reason in _NO_EFFECT]
    return sorted([*ignored, *((_readable(regex), "refused", reason) for regex, reason in _REFUSED)])


def _readable(regex: str) -> str:
    for part, text in _READABLE:
        regex = regex.replace(part, text)
    return regex.replace("..*", ".*")
