"""The settings of an embedded log's stream, from Kafka's topic keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from samzapy.api.system import StreamSpec
from samzapy.errors import ConfigError, ConfigProblem

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_POLICIES = frozenset({"delete", "compact", "compact,delete", "delete,compact"})

#: Kafka's defaults, except for `retention.ms`: by default an embedded log keeps everything.
DEFAULTS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1000012",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "retention.ms": "-1",
}

#: With fewer new records a log is not cleaned automatically: cleaning reads the whole log.
LEAST_DIRTY = 50_000


@dataclass(frozen=True)
class Topic:
    """A stream that exists, with its settings. Each stream that is created gets a new `stream_id`."""

    name: str
    stream_id: str
    partitions: int
    config: Mapping[str, str]
    max_message_bytes: int
    compacted: bool
    expires: bool
    retention_ms: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    dirty_ratio: float

    def needs_cleaning(self, dirty: int, total: int) -> bool:
        """Whether a log with `dirty` records since the last cleaning, of `total` now, should be cleaned again."""
        return (self.compacted or self.expires) and dirty >= LEAST_DIRTY and dirty >= total * self.dirty_ratio


def grown(found: Topic, partitions: int) -> Topic:
    """The topic with `partitions` partitions. Raises ConfigError if that is fewer than it has."""
    if partitions < found.partitions:
        allowed = f"cannot shrink: it has {found.partitions}"
        raise ConfigError([ConfigProblem(f"{found.name}: partitions", str(partitions), allowed)])
    return replace(found, partitions=partitions)


def topic(spec: StreamSpec, stream_id: str) -> Topic:
    """The topic that `spec` asks for. Raises ConfigError with every problem."""
    problems = []
    if not _NAME.fullmatch(spec.stream) or spec.stream in {".", ".."}:
        problems.append(ConfigProblem("stream", spec.stream, "a name is 1 to 249 of A-Z a-z 0-9 . _ -"))
    if spec.partitions < 1:
        problems.append(ConfigProblem(f"{spec.stream}: partitions", str(spec.partitions), "expected an integer >= 1"))
    config = {**DEFAULTS, **spec.config}
    values = {key: _number(spec.stream, key, config[key], problems) for key in DEFAULTS if key != "cleanup.policy"}
    policy = config["cleanup.policy"].replace(" ", "")
    if policy not in _POLICIES:
        problem = ConfigProblem(f"{spec.stream}: cleanup.policy", policy, "delete, compact or compact,delete")
        problems.append(problem)
    if problems:
        raise ConfigError(problems)
    return Topic(
        spec.stream,
        stream_id,
        spec.partitions,
        config,
        max_message_bytes=int(values["max.message.bytes"]),
        compacted="compact" in policy,
        expires="delete" in policy and values["retention.ms"] >= 0,
        retention_ms=int(values["retention.ms"]),
        delete_retention_ms=int(values["delete.retention.ms"]),
        min_compaction_lag_ms=int(values["min.compaction.lag.ms"]),
        dirty_ratio=values["min.cleanable.dirty.ratio"],
    )


def _number(stream: str, key: str, text: str, problems: list[ConfigProblem]) -> float:
    least = -1 if key == "retention.ms" else 0
    fraction = key.endswith(".ratio")
    try:
        value = float(text) if fraction else int(text)
        if value >= least and not (fraction and value > 1):
            return value
    except ValueError:
        pass
    allowed = "a number from 0 to 1" if fraction else f"an integer >= {least}"
    problems.append(ConfigProblem(f"{stream}: {key}", text, f"expected {allowed}"))
    return 0
