"""Page views as visits: how many, and of which pages."""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.operators.windows import Fold, Sessions, WindowedAggregation, WindowedTask

Visit = dict[str, Any]


def _begun() -> Visit:
    return {"views": 0, "pages": []}


def _viewed(visit: Visit, page: str) -> Visit:
    return _together(visit, {"views": 1, "pages": [page]})


def _together(one: Visit, other: Visit) -> Visit:
    return {"views": one["views"] + other["views"], "pages": sorted({*one["pages"], *other["pages"]})}


class VisitsTask(WindowedTask):
    """A visit ends half an hour after its last page view, by user, the message's key. Views that arrive up to five
    minutes out of order find their visit. `visits.output` and `visits.late` in the job file name streams as
    `system.stream`."""

    def aggregation(self, context: Context) -> WindowedAggregation:
        config = context.job.config
        return WindowedAggregation(
            Sessions("30m", grace="5m"),
            Fold(_begun, _viewed, _together, name="visit"),
            output=SystemStream.parse(config["visits.output"]),
            late=SystemStream.parse(config["visits.late"]),
        )

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.windows.add(envelope, envelope.key, envelope.message["page"], collector)
