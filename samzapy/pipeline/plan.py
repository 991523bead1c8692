"""What a pipeline needs of its job: inputs, streams, stores, as keys of a job file; and what it looks like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.reading.keys import is_name
from samzapy.errors import ConfigError
from samzapy.pipeline.stateless import Source, Through, To
from samzapy.pipeline.step import Step, clock_of, named
from samzapy.pipeline.tables import Lookup
from samzapy.pipeline.timed import Late
from samzapy.plugins import path_of

#: The store that remembers the steps of a job, by name.
STEPS = "steps"
_NO_MESSAGES = {"msg.serde": "bytes", "msg.type": ""}  # of streams with totals or keys only, whatever is given


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps of a pipeline, each after its inputs."""

    name: str
    steps: Sequence[Step]

    #: The store that remembers the steps.
    memory: ClassVar[str] = STEPS

    @cached_property
    def sources(self) -> Sequence[Source]:
        """The steps that read inputs of the job."""
        return [step for step in self.steps if isinstance(step, Source)]

    @cached_property
    def own_streams(self) -> frozenset[SystemStream]:
        """The streams that connect steps of the job."""
        return frozenset(step.stream for step in self.steps if isinstance(step, Through))

    @cached_property
    def copartitioned(self) -> Mapping[str, Collection[SystemStream]]:
        """The streams whose equal keys have to meet in one task, by the step that needs them, in words."""

        def sources(step: Step) -> set[SystemStream]:
            if isinstance(step, Source):
                return set() if step.is_everywhere else {step.stream}
            return set().union(*map(sources, step.inputs))

        return {
            f"step '{step.name}' ({step.kind}) needs them there: send streams through the job with through() or "
            "key_by, or give the inputs the same number of partitions": set().union(*map(sources, step.together))
            for step in self.steps
        }

    @cached_property
    def signatures(self) -> Mapping[str, str]:
        """What the state of each step means, by name."""
        return {step.name: step.signature for step in self.steps if step.stores}

    @cached_property
    def direct(self) -> frozenset[Step]:
        """The sources that take messages with positions of a `Through` at once, in a job of one task."""
        read = Counter(source.stream for source in self.sources)
        return frozenset(
            source
            for source in self.sources
            for through in source.inputs
            if read[source.stream] == 1 and through.inputs[0].has_positions
        )

    def children(self, step: Step, direct: Collection[Step]) -> Sequence[tuple[Step, int]]:
        """The steps that take a step's messages, each with the number of that input. `direct`: the sources that do."""
        return [
            (child, number)
            for child in self.steps
            for number, parent in enumerate(child.inputs)
            if parent is step and not isinstance(child, Late) and (not isinstance(step, Through) or child in direct)
        ]

    def origins(
        self, ssps: Iterable[SystemStreamPartition], direct: Collection[Step]
    ) -> Mapping[Step, frozenset[SystemStreamPartition]]:
        """The partitions that each step's messages come from, of a task that reads `ssps`."""
        result: dict[Step, frozenset[SystemStreamPartition]] = {}
        for step in self.steps:
            if isinstance(step, Source):
                result[step] = frozenset(ssp for ssp in ssps if ssp.system_stream == step.stream)
                if step in direct:
                    result[step.inputs[0]] |= result[step]
                    result[step] = frozenset(named(step, 0, result[step.inputs[0]]).values())
            elif step.keeps_time:
                result[step] = frozenset([clock_of(step)])
            elif isinstance(step, Lookup):
                result[step] = result[step.inputs[0]]
            else:
                result[step] = frozenset().union(*(result[parent] for parent in step.inputs))
        return result

    def keys(self, given: Mapping[str, str]) -> dict[str, str]:
        """The keys of the job file that the pipeline stands for; those of `given` come first where they exist."""
        keys = {
            "job.name": self.name,
            "task.inputs": ",".join(dict.fromkeys(str(item.stream) for item in self.sources if not item.everywhere)),
            "task.window.ms": "100",
        }
        if self.own_streams:
            # A step sees what an earlier one has sent after a commit.
            keys["task.commit.ms"] = "1000"
        for system in dict.fromkeys(item.stream.system for item in self.steps if isinstance(item, Source | To)):
            servers = f"systems.{system}.consumer.bootstrap.servers", f"systems.{system}.producer.bootstrap.servers"
            is_kafka = any(key in given for key in servers)
            keys[f"systems.{system}.samza.factory"] = "kafka" if is_kafka else "local"
        if everywhere := [f"{step.stream}#*" for step in self.sources if step.everywhere]:
            keys["task.broadcast.inputs"] = ",".join(everywhere)
        for step in self.steps:
            keys |= self._of_streams(step)
            keys |= self._of_stores(step)
        if self.signatures:
            keys |= self._of_store(STEPS, "string")
        bare = [_prefix(item.stream) for item in self.steps if isinstance(item, Through) and item.mark]
        forced = {f"{prefix}{key}": value for prefix in bare for key, value in _NO_MESSAGES.items()}
        return {**keys, **given, **forced}

    def _of_streams(self, step: Step) -> dict[str, str]:
        if isinstance(step, Source):
            prefix = _prefix(step.stream)
            keys = {f"{prefix}key.serde": "string", f"{prefix}msg.serde": "json", f"{prefix}offset.default": "oldest"}
            if step.stream in self.own_streams:
                keys |= {f"{prefix}repartition": "true", f"{prefix}intermediate": "true"}
            elif step.nulls:
                keys[f"{prefix}bootstrap"] = "true"
            if step.value_type is not None:
                keys[f"{prefix}msg.type"] = path_of(step.value_type)
            return keys
        if isinstance(step, To):
            prefix = _prefix(step.stream)
            keys = {f"{prefix}key.serde": "string", f"{prefix}msg.serde": "json"}
            kinds = {to.inputs[0].value_type for to in self.steps if isinstance(to, To) and to.stream == step.stream}
            if len(kinds) == 1 and (kind := kinds.pop()) is not None:
                keys[f"{prefix}msg.type"] = path_of(kind)
            return keys
        return {}

    def _of_stores(self, step: Step) -> dict[str, str]:
        keys: dict[str, str] = {}
        for name, need in step.stores.items():
            if need.timers:
                keys |= {f"stores.{name}.factory": "timers", f"stores.{name}.changelog": self._changelog(name)}
                continue
            keys |= self._of_store(name, "json")
            if need.value_type is not None:
                keys[f"stores.{name}.msg.type"] = path_of(need.value_type)
            if need.ttl_ms:
                keys[f"stores.{name}.rocksdb.ttl.ms"] = str(need.ttl_ms)
        return keys

    def _of_store(self, name: str, msg_serde: str) -> dict[str, str]:
        serdes = {"key.serde": "string", "msg.serde": msg_serde}
        keys = {"factory": "rocksdb", **serdes, "changelog": self._changelog(name)}
        return {f"stores.{name}.{key}": value for key, value in keys.items()}

    def _changelog(self, store: str) -> str:
        return f"{self.sources[0].stream.system}.{self.name}-{store}-changelog"

    def explain(self) -> str:
        """The steps in columns. `rows`: the user's code is called per message; `columns`: it is not."""
        rows = [("step", "does", "works on", "reads", "keeps")]
        for step in self.steps:
            way = "columns" if step.is_batched else "rows"
            parents = ", ".join(parent.name for parent in step.inputs)
            rows.append((step.name, step.describe(), way, parents, ", ".join(step.stores)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"pipeline {self.name}"]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(f"  {'  '.join(cells)}".rstrip())
        return "\n".join(lines)

    @property
    def picture(self) -> list[dict[str, object]]:
        """The steps as plain values, for a picture. `stream`: what the step reads or writes, empty for none."""
        return [
            {
                "name": step.name,
                "kind": step.kind,
                "about": step.describe(),
                "inputs": [parent.name for parent in step.inputs],
                "stream": str(getattr(step, "stream", "")),
                "stores": list(step.stores),
            }
            for step in self.steps
        ]


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps, each after its inputs."""
    result: dict[Step, None] = {}

    def add(step: Step) -> None:
        for parent in step.inputs:
            add(parent)
        result.setdefault(step)

    for step in steps:
        add(step)
    return tuple(result)


def _prefix(stream: SystemStream) -> str:
    return f"systems.{stream.system}.streams.{stream.stream}.samza."


def stream_of(name: str) -> SystemStream:
    """The stream `system.stream`. Raises ValueError."""
    system, _, stream = str(name).partition(".")
    if not system or not stream:
        raise ValueError(f"expected system.stream, like kafka.page-views, got {name!r}")
    return SystemStream(system, stream)


def system_of(step: Step) -> str:
    """The system of a step's first input."""
    while not isinstance(step, Source):
        step = step.inputs[0]
    return step.stream.system


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with a number behind it if it is taken."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free


def check_name(what: str, name: str) -> str:
    """The name. Raises ConfigError for one that cannot be part of keys and streams."""
    if not is_name(name):
        raise ConfigError.of(what, name, "letters, digits, '-' and '_' only, at most 249")
    return name
