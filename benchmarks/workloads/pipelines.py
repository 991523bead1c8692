"""The measured pipelines: counts of events by their key, or by another field."""

from __future__ import annotations

from benchmarks.bare.events import Event
from samzapy.api.context import Context
from samzapy.bench.tasks import Marked
from samzapy.pipeline import Pipeline, field
from samzapy.pipeline.task import PipelineTask

#: The key of the job file that names the field to count by; without it the key counts.
FIELD_KEY = "bench.field"


def counted(name: str, stream: str, by: str = "") -> Pipeline:
    """The number of events in `system.stream` by a field, which needs a repartition, or by their key."""
    pipeline = Pipeline(name)
    events = pipeline.stream(stream, Event)
    (events.key_by(field(by)) if by else events).count(name="counts")
    return pipeline


def keys_of(name: str, stream: str, by: str = "") -> dict[str, str]:
    """The keys of that job, on top of those of `keyed-count.properties`."""
    keys = counted(name, stream, by).plan.keys({"systems.kafka.samza.factory": "kafka"})
    keys.pop("task.commit.ms", None)
    return {**keys, "task.class": f"{__name__}:CountTask", **({FIELD_KEY: by} if by else {})}


class CountPipelineTask(PipelineTask):
    """The task of the pipeline that the job's keys describe."""

    plan = counted("count", "kafka.events").plan

    def init(self, context: Context) -> None:
        config = context.job.config
        stream = config["task.inputs"].partition(",")[0]
        type(self).plan = counted(config["job.name"], stream, config.get(FIELD_KEY, "")).plan
        super().init(context)


class CountTask(Marked, CountPipelineTask):
    """The same, with marks."""

    def init(self, context: Context) -> None:
        CountPipelineTask.init(self, context)
        super().init(context)

    def close(self) -> None:
        super().close()
        CountPipelineTask.close(self)
