"""Count events by key, with a changelog: what a message of a job with state costs."""

from __future__ import annotations

from types import MappingProxyType

from benchmarks.workloads.base import BARE, InManyWays, Way, also_not_compiled, in_both_guarantees
from benchmarks.workloads.pipelines import keys_of
from samzapy.bench.events import Events
from samzapy.bench.measuring import LOCAL, SPARK, Measurement

_CACHE = "stores.counts.object.cache.size"
_TYPE = {"streams.{input}.samza.msg.type": "benchmarks.bare.events:Event"}
_TASKS = "samzapy.bench.tasks"
_PIPELINE = "local.pipeline"
_WAYS = {
    BARE: Way(),
    "bare.memory": Way({"keep": "memory"}),
    "bare.cache-1000": Way({"keep": "bounded"}),
    "bare.typed": Way({"fold": "typed"}),
    "bare.batch": Way({"fold": "batch"}),
    "bare.batch.typed": Way({"fold": "batch-typed"}),
    "bare.batch.keys": Way({"fold": "batch-keys"}),
    LOCAL: Way(like="bare.memory"),
    "local.cache-1000": Way(keys={_CACHE: "1000"}, like="bare.cache-1000"),
    "local.cache-100000": Way(keys={_CACHE: "100000"}, like=BARE),
    "local.typed": Way(keys={**_TYPE, "task.class": f"{_TASKS}:TypedKeyedCountTask"}, like="bare.typed"),
    "local.batch": Way(keys={"task.class": f"{_TASKS}:KeyedCountBatchTask"}, like="bare.batch"),
    "local.batch.typed": Way(
        keys={**_TYPE, "task.class": f"{_TASKS}:TypedKeyedCountBatchTask"}, like="bare.batch.typed"
    ),
    "local.batch.keys": Way(
        keys={
            "task.class": f"{_TASKS}:KeysBatchTask",
            "systems.kafka.default.stream.samza.key.serde": "string",
            "systems.kafka.default.stream.samza.msg.serde": "bytes",
        },
        like="bare.batch.keys",
    ),
    _PIPELINE: Way(like="bare.batch.keys", beside="local.batch.typed"),
    SPARK: Way(runner=SPARK, like=BARE),
}


class KeyedCount(InManyWays):
    """Count by user."""

    name = "keyed-count"
    ways = MappingProxyType(
        also_not_compiled(
            in_both_guarantees(_WAYS, LOCAL, "local.typed", "local.batch.typed", "local.batch.keys"),
            LOCAL,
            "local.typed",
            "local.batch.typed",
        )
    )
    variants = tuple(ways)

    def prepare(self) -> None:
        self._input = self._kafka.load("events", Events(self._events))

    def bare(self, way: Way) -> Measurement:
        changelog = self._kafka.create("counts", compacted=True)
        measured = self._loop(
            "keyed_count",
            input=self._input,
            changelog=changelog,
            checkpoints=self._kafka.create("checkpoints", compacted=True),
            folder=self._kafka.folder / self._kafka.unique("bare"),
            **way.options,
        )
        return self._with_changelog(measured, changelog)

    def samzapy(self, way: Way) -> Measurement:
        changelog = self._kafka.unique("counts")
        name = self._kafka.unique("pipeline")
        pipeline = keys_of(name, f"kafka.{self._input}") if way is self.ways[_PIPELINE] else {}
        overrides = {
            **pipeline,
            "task.inputs": f"kafka.{self._input}",
            "stores.counts.changelog": f"kafka.{changelog}",
            **way.keys_for(input=self._input),
        }
        return self._with_changelog(self._job(self.name, way.runner, overrides, compiled=way.compiled), changelog)
