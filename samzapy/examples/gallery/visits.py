"""Groups page views into visits to a site: session windows that count the views and collect the pages."""

from __future__ import annotations

from typing import Any

import msgspec

from samzapy import Context, IncomingMessageEnvelope, MessageCollector, SystemStream, TaskCoordinator
from samzapy.operators.windows import Fold, Sessions, WindowedAggregation, WindowedTask


class View(msgspec.Struct):
    """A page that a user has opened. Its key is the user."""

    page: str


Visit = dict[str, Any]


def _begun() -> Visit:
    return {"views": 0, "pages": []}


def _viewed(visit: Visit, page: str) -> Visit:
    return _together(visit, {"views": 1, "pages": [page]})


def _together(one: Visit, other: Visit) -> Visit:
    return {"views": one["views"] + other["views"], "pages": sorted({*one["pages"], *other["pages"]})}


class VisitsTask(WindowedTask[str, View]):
    """Makes a visit of a user's page views with less than half an hour between them. A view that arrives up to five
    minutes out of order still joins its visit. `visits.output` and `visits.late` in the job file name the streams, as
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
        self, envelope: IncomingMessageEnvelope[str, View], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.windows.add(envelope, envelope.key, envelope.message.page, collector)
