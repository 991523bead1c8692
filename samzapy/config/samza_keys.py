"""Keys that samzapy does not read: Samza's keys without effect, refused ones, and keys of earlier versions.

1. A key without effect is a warning, so a Samza job file can be used unchanged.
2. A refused key would change what a job does: a problem, unless its value is neutral.
3. A removed key of samzapy is a problem that says what to do instead.
4. A retired name is replaced by the present one, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

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
#: The keys of earlier versions that are gone, each with what to do instead. `*` stands for any part.
REMOVED: Mapping[str, str] = {
    "serializers.registry.*.cache.dir": "leave it out; schemas are kept in memory, and a start asks the registry",
    "job.spark.class.archive": "leave it out; from Java 19 on a JVM keeps such an archive by itself, with "
    "-XX:+AutoCreateSharedArchive -XX:SharedArchiveFile=FILE in job.spark.conf.spark.driver.extraJavaOptions",
    "job.spark.resubmit.backoff.ms": "the first pause of several in a row is 1 s; job.spark.resubmit.backoff.max.ms limits all",
    "job.orphaned.stores.ttl.ms": "a store is set aside after 7 days without use",
    "job.clock.stall.ms": "a warning comes after 2 minutes",
    "job.clock.idle.ms": "use task.watermark.idle.timeout.ms, which timers and watermarks obey as well",
    "job.log.max.bytes": "a log file has at most 10 MiB",
    "job.log.files": "5 older log files are kept",
    "job.query.page.max.bytes": "a page has at most 1 MiB",
    "metrics.prometheus.max.series": "the driver serves the series of the job, of containers and of partitions",
    "task.error.*.retries": "write the number into the policy: retry(3, 100ms) then fail",
    "task.error.*.backoff.ms": "write the pause into the policy: retry(3, 100ms) then fail",
    "task.timers.store": "a job has one store with the factory timers",
    "state.checkpoint.system": "the states are next to the positions: task.checkpoint.system",
    "state.checkpoint.replication.factor": "the topic has as many copies as that of the positions: "
    "task.checkpoint.replication.factor",
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
    found = next((advice for name, advice in REMOVED.items() if fnmatchcase(key, name)), None)
    return found and f"no key any more: {found}"


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


_STORES = "stores."
_FIRST_ENGINES = frozenset({"KeyValueStorageEngineFactory", "LevelDbKeyValueStorageEngineFactory"})


def _as_it_is(value: str) -> str:
    return value


def _compression(value: str) -> str:
    return {"true": "snappy", "false": "none"}.get(value.strip().lower(), value)


#: Retired name below `stores.NAME.` -> the present names, and the translation of the value.
_RENAMED: Mapping[str, tuple[tuple[str, ...], Callable[[str], str]]] = {
    "batch.size": (("write.batch.size",), _as_it_is),
    "serde": (("key.serde", "msg.serde"), _as_it_is),
    "leveldb.block.cache.size": (("container.cache.size.bytes",), _as_it_is),
    "leveldb.write.buffer.size": (("container.write.buffer.size.bytes",), _as_it_is),
    "leveldb.block.size": (("rocksdb.block.size.bytes",), _as_it_is),
    "leveldb.compress": (("rocksdb.compression",), _compression),
}


class Renamed(NamedTuple):
    """The values under the present names, a warning for each replaced name, and the keys with secret values."""

    values: dict[str, str]
    warnings: list[str]
    secret: frozenset[str]


def with_todays_names(values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> Renamed:
    """Replace retired names. `secret` are the keys with secret values.

    LevelDB's memory was per store, RocksDB's is shared by the tasks of a container; the warning says so.
    """
    found = dict(values)
    warnings: list[str] = []
    hidden = set(secret)
    for key in values:
        store, leaf = _split(key, values)
        if leaf in _RENAMED:
            names, translate = _RENAMED[leaf]
            for name in names:
                found.setdefault(f"{store}.{name}", translate(values[key]))
                hidden |= {f"{store}.{name}"} if key in secret else set()
            del found[key]
            now = " and ".join(f"{store}.{name}" for name in names)
            shared = ", for all tasks of a container together" if names[0].startswith("container.") else ""
            warnings.append(f"{key}: retired, use {now} instead{shared}")
        elif leaf == "system":
            del found[key]
            hidden |= {f"{store}.changelog"} if key in secret else set()
            warnings.append(f"{key}: {_into_changelog(found, store, values[key])}")
        elif leaf == "factory" and _is_first_engine(values[key]):
            found[key] = "rocksdb"
            warnings.append(f"{key}: LevelDB is not supported, rocksdb keeps the store instead")
    return Renamed(found, warnings, frozenset(hidden))


def _split(key: str, values: Mapping[str, str]) -> tuple[str, str]:
    """`stores.NAME` and the rest, for a store that has a factory; two empty texts otherwise."""
    if key.startswith(_STORES):
        for leaf in (*_RENAMED, "system", "factory"):
            store = key.removesuffix(f".{leaf}")
            if store != key and f"{store}.factory" in values:
                return store, leaf
    return "", ""


def _into_changelog(found: dict[str, str], store: str, system: str) -> str:
    changelog = found.get(f"{store}.changelog", "").strip()
    if changelog and "." not in changelog:
        found[f"{store}.changelog"] = f"{system}.{changelog}"
        return f"retired, use {store}.changelog={system}.{changelog} instead"
    return f"has no effect: {store}.changelog {'names the system already' if changelog else 'is not set'}"


def _is_first_engine(value: str) -> bool:
    java = value.strip().startswith(("samza.", "org.apache.samza."))
    return java and value.strip().rpartition(".")[2] in _FIRST_ENGINES
