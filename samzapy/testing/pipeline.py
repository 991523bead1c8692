"""Drives a pipeline under test, several steps deep."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.pipeline import Pipeline
from samzapy.testing.driver import ManualClock, TaskTestDriver
from samzapy.testing.job import Partitions


class PipelineDriver(TaskTestDriver):
    """A TaskTestDriver of a pipeline: `send`, `advance`, `outputs`, `store(step)`, crash points, and whatever it has
    besides. Messages go through all steps, and through the streams between them, before `send` returns.

        with PipelineDriver(pipeline, partitions=2) as driver:
            driver.send("page-views", {"page": "/home"}, key="ann")
            driver.advance(60)
            assert driver.outputs("page-view-counts").messages == [...]
    """

    def __init__(
        self,
        pipeline: Pipeline,
        config: Mapping[str, str] | None = None,
        *,
        partitions: Partitions = 1,
        clock: ManualClock | None = None,
        patience_s: float = 30.0,
    ) -> None:
        """`config`: keys on top of the pipeline's. Otherwise as TaskTestDriver."""
        keys = pipeline.plan.keys(config or {})
        super().__init__(pipeline.task, keys, partitions=partitions, clock=clock, patience_s=patience_s)
