"""The measured pipelines: counts of events by their key or by another field, and the pass-through."""

from __future__ import annotations

from benchmarks.bare.events import Event
from samzapy.api.context import Context
from samzapy.bench.tasks import Marked
from samzapy.pipeline import Pipeline, field
from samzapy.pipeline.task import PipelineTask

#: Keys of the job file: the field to count by (default: the key), and the stream to pass the events on to.
FIELD_KEY, OUTPUT_KEY = "bench.field", "bench.output"


def counted(name: str, stream: str, by: str = "") -> Pipeline:
    """The number of events in `system.stream` by a field, which needs a repartition, or by their key."""
    pipeline = Pipeline(name)
    events = pipeline.stream(stream, Event)
    (events.key_by(field(by)) if by else events).count(name="counts")
    return pipeline


def passed_on(name: str, stream: str, output: str) -> Pipeline:
    """The events of `system.stream`, each with a field more, in another one."""
    pipeline = Pipeline(name)
    pipeline.stream(stream, Event).map_values(_seen).to(output)
    return pipeline


def _seen(event: Event) -> Event:
    event.seen = True
    return event


def keys_of(name: str, stream: str, *, by: str = "", output: str = "") -> dict[str, str]:
    """The keys of that job, on top of those of `keyed-count.properties` or `pass-through.properties`."""
    built = passed_on(name, stream, output) if output else counted(name, stream, by)
    keys = built.plan.keys({"systems.kafka.samza.factory": "kafka"})
    keys.pop("task.commit.ms", None)
    ours = {FIELD_KEY: by, OUTPUT_KEY: output}
    return {**keys, "task.class": f"{__name__}:MarkedPipelineTask", **{key: ours[key] for key in ours if ours[key]}}


class MeasuredPipelineTask(PipelineTask):
    """The task of the pipeline that the job's keys describe."""

    plan = counted("count", "kafka.events").plan

    def init(self, context: Context) -> None:
        config = context.job.config
        name, stream = config["job.name"], config["task.inputs"].partition(",")[0]
        output = config.get(OUTPUT_KEY)
        built = passed_on(name, stream, output) if output else counted(name, stream, config.get(FIELD_KEY, ""))
        type(self).plan = built.plan
        super().init(context)


class MarkedPipelineTask(Marked, MeasuredPipelineTask):
    """The same, with marks."""

    def init(self, context: Context) -> None:
        MeasuredPipelineTask.init(self, context)
        super().init(context)

    def close(self) -> None:
        super().close()
        MeasuredPipelineTask.close(self)
