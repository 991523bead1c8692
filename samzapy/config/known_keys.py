"""Lists all keys: those that samzapy reads, those in force in a job, and those that it does not read.

1. A key of Samza without effect is a warning, so a Samza job file can be used unchanged.
2. A refused key would change what a job does: a problem, unless its value is neutral.
3. A removed key, of samzapy or of Samza before 0.8, is a problem that says what to do instead.
4. An unknown key is a warning with the nearest known one, or a problem if the check is strict.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from samzapy.api.system import SystemSettings
from samzapy.config.checkpoint import CheckpointConfig, StateCheckpointConfig
from samzapy.config.error_policy import ErrorKeys
from samzapy.config.job import JobClockConfig, JobConfig, PlacementConfig, SparkConfig
from samzapy.config.reading.classes import ENGINES, SYSTEMS
from samzapy.config.reading.keys import Key, Reader, keys_of, split_list, texts_of
from samzapy.config.stores import StoreConfig
from samzapy.config.stores.engines import ENGINE_SECTIONS
from samzapy.config.stores.store import STORE_SECTIONS
from samzapy.config.streams import systems
from samzapy.config.streams.serdes import SchemaSettings, SerdeKeys
from samzapy.config.streams.stream import StreamConfig, StreamKeys
from samzapy.config.streams.systems import DatabaseConfig, SystemKeys, TableConfig
from samzapy.config.supervision import LogConfig, QueryConfig, ReporterConfig, SupervisionConfig
from samzapy.config.task import AsyncConfig, BatchConfig, ChooserConfig, TaskConfig

#: Samza's keys that change nothing here: names, in which `*` stands for any text, each with the reason.
_NO_EFFECT: tuple[tuple[str, str], ...] = (
    ("app.class", "task.class comes first"),
    ("app.runner.class app.mode app.run.id", "`samzapy run` is the runner"),
    ("job.factory.class", "--runner and job.spark.master say where containers run"),
    ("job.coordinator.monitor-input-regex.frequency.ms", "job.inputs.refresh.ms has the driver look for new inputs"),
    (
        "job.config.rewriter.*",
        "samzapy takes one file and --config key=value; of rewriters it knows RegExTopicGenerator",
    ),
    (
        (
            "job.container.thread.* job.container.commit.* job.container.restore.* job.container.heartbeat.* "
            "job.container.task.*"
        ),
        "a container has one thread",
    ),
    ("job.systemstreampartition.input.expansion.enabled", "with state, new partitions always go to their keys' tasks"),
    ("yarn.* cluster-manager.* container.* blob.store.* fs.*", "Spark places and limits containers"),
    ("task.opts task.java.home task.execute task.command.class task.log4j.*", "there is no JVM to launch"),
    ("task.checkpoint.segment.bytes", "use systems.SYSTEM.default.stream.segment.bytes"),
    ("task.live.checkpoint.max.age", "there is one checkpoint format"),
    ("task.checkpoint.read.versions", "a start reads samzapy's records or Samza's version 1, whichever are newer"),
    ("task.transactional.state.*", "local stores never hold more than what was committed"),
    ("task.commit.timeout.ms task.commit.skip.*", "a commit is never skipped"),
    (
        "stores.backup.factories stores.*.backup.factories stores.restore.factories stores.*.restore.factories",
        "stores.X.changelog and stores.X.backup.path say where state is kept",
    ),
    ("metrics.timer.*", "timers are always on"),
    ("spark.*", "Spark's own keys go behind job.spark.conf., as in job.spark.conf.spark.executor.memory=2g"),
    (
        (
            "job.coordinator.* job.jmx.* job.autosizing.* job.debounce.* job.security.* job.diagnostics.* "
            "job.drain-monitor.* job.checkpoint.validation.enabled job.systemstreampartition.matcher.config.* "
            "job.system.stream.* task.callback.watermark.* task.callback.drain.* task.watermark.quorum.* "
            "task.poll.interval.ms task.name.grouper.factory systems.*.samza.delete.committed.messages "
            "streams.*.samza.delete.committed.messages"
        ),
        "no counterpart",
    ),
)
#: Samza's keys that would change a job, in the same form.
_REFUSED: tuple[tuple[str, str], ...] = (
    (
        "stores.*.side.inputs.processor.serialized.instance",
        "it is an object of the JVM: name a SideInputsProcessor class in side.inputs.processor.factory",
    ),
    ("job.elasticity.factor", "elasticity is not supported: leave it out or set 1"),
    (
        "job.systemstreampartition.matcher.class",
        "not supported: a job reads every partition of its inputs; leave it out, and skip the others in process",
    ),
    (
        "job.config.rewriters",
        "not supported but for RegExTopicGenerator: write what the rewriter would, with ${env:NAME} for variables",
    ),
    (
        "job.config.loader.*",
        "not supported: start the job with the file that it would load, and --config key=value for single keys",
    ),
    (
        "streams.*.samza.broadcast systems.*.streams.*.samza.broadcast",
        "not supported: name the stream's partitions in task.broadcast.inputs",
    ),
)
#: The keys of earlier versions that are gone, each with what to do instead. `*` stands for one part.
REMOVED: Mapping[str, str] = {
    "job.spark.coordinator.tls.certificate.location": "leave it out; each run makes its own certificate",
    "job.spark.coordinator.tls.key.location": "leave it out; each run makes its own certificate",
    "job.query.keyed.stores": "leave it out; a query asks all tasks, or the one that its parameter partition names",
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
_NEUTRAL = {"", "1", "false"}
#: Keys with an effect below keys without one.
_WITH_EFFECT = ("yarn.container.count", "container.cache.", "container.rocksdb.")


def no_effect(key: str) -> str | None:
    """The reason why Samza's `key` has no effect here; None for any other key."""
    return None if key.startswith(_WITH_EFFECT) else _reason(_NO_EFFECT, key)


def refused(key: str) -> str | None:
    """The reason why a job with this key is refused, unless its value is neutral; None if it is not."""
    return _reason(_REFUSED, key)


def _reason(table: tuple[tuple[str, str], ...], key: str) -> str | None:
    return next((reason for names, reason in table if any(fnmatchcase(key, name) for name in names.split())), None)


def removed(key: str) -> str | None:
    """What to do without this key of an earlier version; None for any other key."""
    shape = key.split(".")
    for name, advice in REMOVED.items():
        parts = name.split(".")
        if len(parts) == len(shape) and all(part in {"*", own} for part, own in zip(parts, shape, strict=True)):
            return f"no key any more: {advice}"
    return None


def unsupported() -> list[tuple[str, str, str]]:
    """Samza's keys that have no effect or are refused, sorted: (key, warning or refused, reason)."""
    tables = {"warning": _NO_EFFECT, "refused": _REFUSED}
    rows = [(name, what, reason) for what, table in tables.items() for names, reason in table for name in names.split()]
    return sorted(rows)


#: The dataclasses with keys, by topic.
SECTIONS: tuple[type, ...] = (
    JobConfig,
    PlacementConfig,
    JobClockConfig,
    SparkConfig,
    TaskConfig,
    ChooserConfig,
    AsyncConfig,
    BatchConfig,
    ErrorKeys,
    CheckpointConfig,
    StateCheckpointConfig,
    SystemKeys,
    DatabaseConfig,
    TableConfig,
    StreamConfig,
    StreamKeys,
    SerdeKeys,
    SchemaSettings,
    *STORE_SECTIONS,
    *ENGINE_SECTIONS,
    ReporterConfig,
    SupervisionConfig,
    LogConfig,
    QueryConfig,
)
#: Every key that samzapy reads. The documentation lists them; an unknown key is compared with them.
ALL_KEYS = keys_of(*SECTIONS)
#: Keys with another first part belong to the user, unless they look like a misspelling.
_OURS = frozenset({"app", "container", "job", "task", "systems", "streams", "serializers", "stores", "metrics"})
_NEAR, _VERY_NEAR = 0.75, 0.85


def texts() -> Mapping[str, str]:
    """What each key is for, by its name."""
    return texts_of(*SECTIONS)


#: The placeholder that follows the beginning of a key.
_PLACEHOLDERS = {
    "systems.": "system",
    "systems.{system}.streams.": "physical",
    "streams.": "stream",
    "stores.": "store",
    "serializers.registry.": "serde",
    "metrics.reporter.": "reporter",
}


class KnownKeys:
    """The keys that have a meaning in a job. `known` are the job's names by placeholder; without them a name is any
    text without a dot. Plug-ins define the keys below `open_prefixes`, so these are never unknown."""

    def __init__(
        self, keys: Sequence[Key[Any]], known: Mapping[str, frozenset[str]], open_prefixes: Sequence[str] = ()
    ) -> None:
        names = {name for key in keys for name in key.names}
        self._families = tuple(name.removesuffix("*") for name in names if name.endswith(".*"))
        self._exact = frozenset(name for name in names if not name.endswith(".*"))
        self._known = known
        self._prefixes = tuple(open_prefixes)

    def unknown(self, keys: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """Every unknown key, with the nearest known key or None."""
        suspects = [key for key in keys if not self._is_known(key)]
        candidates = self._candidates() if suspects else []
        for key in suspects:
            nearest = next(iter(difflib.get_close_matches(key, candidates, n=1, cutoff=_NEAR)), None)
            ours = key.partition(".")[0] in _OURS
            if ours or (nearest and difflib.SequenceMatcher(None, key, nearest).ratio() >= _VERY_NEAR):
                yield key, nearest

    def _is_known(self, key: str) -> bool:
        shapes = {key, *self._shapes(key)}
        if shapes & self._exact or key.startswith(self._prefixes):
            return True
        return ".samza." not in key and any(shape.startswith(self._families) for shape in shapes)

    def _shapes(self, key: str) -> Iterator[str]:
        """The key with placeholders in place of the job's names. A name may have dots."""
        for prefix, placeholder in _PLACEHOLDERS.items():
            if not key.startswith(prefix):
                continue
            known, parts = self._known.get(placeholder), key.removeprefix(prefix).split(".")
            for count in range(1, len(parts)):
                name, rest = ".".join(parts[:count]), ".".join(parts[count:])
                if "{" not in name and (count == 1 if known is None else name in known):
                    shape = f"{prefix}{{{placeholder}}}.{rest}"
                    yield shape
                    yield from self._shapes(shape)

    def _candidates(self) -> list[str]:
        result: list[str] = []
        for name in sorted(self._exact):
            texts = [name]
            for placeholder, names in self._known.items():
                mark = f"{{{placeholder}}}"
                texts = [text.replace(mark, value) for text in texts for value in (names if mark in text else [""])]
            result += [text for text in texts if "{" not in text]
        return result


def check_keys(reader: Reader, config: JobConfig, *, strict: bool) -> None:
    """Note a problem for each refused key, and warnings for keys without effect and unknown ones (problems if
    `strict`)."""
    known = KnownKeys(ALL_KEYS, _names(config), list(_open_prefixes(config.systems, config.stores)))
    suspects = []
    for key, value in reader.values.items():
        if (reason := refused(key)) and value in _NEUTRAL:
            continue
        if reason or (reason := removed(key)):
            reader.problem(key, reason, value)
        elif reason := no_effect(key):
            reader.warn(f"{key}: has no effect in samzapy: {reason}")
        else:
            suspects.append(key)
    taken = _topic_keys(config.systems)
    unknown = {key: "not a topic setting of Kafka" for key in suspects if not taken.get(key, True)}
    for key, nearest in known.unknown([key for key in suspects if key not in taken]):
        unknown[key] = f"unknown key{f'; did you mean {nearest}?' if nearest else ''}"
    for key, message in unknown.items():
        if strict:
            reader.problem(key, message)
        else:
            reader.warn(f"{key}: {message}")


def _topic_keys(result: Mapping[str, SystemSettings]) -> dict[str, bool]:
    """The keys for topics, each with whether a topic takes it. Databases and plug-ins have keys of their own there."""
    with_topics = {SYSTEMS.short[name] for name in ("kafka", "local", "memory")}
    return {
        key: taken
        for settings in result.values()
        if settings.factory in with_topics
        for key, taken in systems.topic_keys(settings).items()
    }


def _names(config: JobConfig) -> dict[str, frozenset[str]]:
    return {
        "system": frozenset(config.systems),
        "stream": frozenset(config.stream_ids),
        "physical": frozenset(stream.stream for stream in config.streams),
        "store": frozenset(config.stores),
        "serde": frozenset(config.serdes),
        "reporter": frozenset(split_list(config.resolved.get("metrics.reporters", ""))),
    }


def _open_prefixes(
    found_systems: Mapping[str, SystemSettings], found_stores: Mapping[str, StoreConfig]
) -> Iterator[str]:
    """The prefixes of the keys that plug-ins of the user define."""
    ours = {*SYSTEMS.short.values(), *ENGINES.short.values()}
    for settings in found_systems.values():
        if settings.factory not in ours:
            yield f"systems.{settings.name}."
    for store in found_stores.values():
        if store.factory not in ours:
            yield f"stores.{store.name}."
