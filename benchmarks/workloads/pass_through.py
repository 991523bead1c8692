"""Add one field to each event: what consuming, decoding, encoding and producing cost."""

from __future__ import annotations

from types import MappingProxyType

from benchmarks.workloads.base import BARE, InManyWays, Way, also_not_compiled, in_both_guarantees
from samzapy.bench.events import Events
from samzapy.bench.measuring import LOCAL, SPARK, Measurement

_TYPES = {f"streams.{{{topic}}}.samza.msg.type": "benchmarks.bare.events:Event" for topic in ("input", "output")}
_WAYS = {
    BARE: Way(),
    "bare.typed": Way({"fold": "typed"}),
    "bare.batch.typed": Way({"fold": "batch-typed"}),
    LOCAL: Way(like=BARE),
    "local.typed": Way(keys={**_TYPES, "task.class": "samzapy.bench.tasks:TypedPassThroughTask"}, like="bare.typed"),
    "local.batch": Way(keys={"task.class": "samzapy.bench.tasks:PassThroughBatchTask"}, like=BARE),
    "local.batch.typed": Way(
        keys={**_TYPES, "task.class": "samzapy.bench.tasks:TypedPassThroughBatchTask"}, like="bare.batch.typed"
    ),
    SPARK: Way(runner=SPARK, like=BARE),
}


class PassThrough(InManyWays):
    """Consume, decode, add a field, encode, produce."""

    name = "pass-through"
    ways = MappingProxyType(
        also_not_compiled(
            in_both_guarantees(_WAYS, LOCAL, "local.typed", "local.batch.typed"), LOCAL, "local.batch.typed"
        )
    )
    variants = tuple(ways)

    def prepare(self) -> None:
        self._input = self._kafka.load("events", Events(self._events))

    def bare(self, way: Way) -> Measurement:
        output, checkpoints = self._kafka.create("out"), self._kafka.create("checkpoints", compacted=True)
        return self._loop("pass_through", input=self._input, output=output, checkpoints=checkpoints, **way.options)

    def samzapy(self, way: Way) -> Measurement:
        output = self._kafka.create("out")
        keys = way.keys_for(input=self._input, output=output)
        overrides = {"task.inputs": f"kafka.{self._input}", "bench.output": f"kafka.{output}", **keys}
        return self._job(self.name, way.runner, overrides, compiled=way.compiled)
