"""Groups page views into visits to a site: session windows that count the views and collect the pages.

python -m samzapy.examples.visits JOB.properties [--config key=value]...

writes generated page views to the job's input, in the order of their arrival: a phone may be offline for a while. The same
seed gives the same page views.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.examples.flights.dataset import Event
from samzapy.examples.flights.load import load_command
from samzapy.operators.windows import Fold, Sessions, WindowedAggregation, WindowedTask

Visit = dict[str, Any]


def _begun() -> Visit:
    return {"views": 0, "pages": []}


def _viewed(visit: Visit, page: str) -> Visit:
    return _together(visit, {"views": 1, "pages": [page]})


def _together(one: Visit, other: Visit) -> Visit:
    return {"views": one["views"] + other["views"], "pages": sorted({*one["pages"], *other["pages"]})}


class VisitsTask(WindowedTask):
    """Makes a visit of a user's page views with less than half an hour between them; the message's key is the user. A view
    that arrives up to five minutes out of order still joins its visit. `visits.output` and `visits.late` in the job file
    name the streams, as `system.stream`."""

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


_START_MS = 1_700_000_000_000
_SECOND_MS, _HOUR_MS = 1_000, 3_600_000
_PAGES = [f"/p/{number:02}" for number in range(50)]


def page_views(count: int, seed: int = 7, users: int = 200) -> list[Event]:
    """The first `count` page views in the order of arrival, keyed by user."""
    chance = Random(seed)
    views = [view for user in range(users) for view in _views_of(f"user-{user:04}", count // users + 1, chance)]
    views.sort(key=lambda view: view[0])
    return [event for _, event in views[:count]]


def _views_of(user: str, count: int, chance: Random) -> Iterator[tuple[int, Event]]:
    """`count` views with their times of arrival: visits of some minutes, with hours between them."""
    time = _START_MS + chance.randrange(12 * _HOUR_MS)
    for _ in range(count):
        leaves = chance.random() < 0.1
        time += chance.randrange(_HOUR_MS, 12 * _HOUR_MS) if leaves else chance.randrange(5, 600) * _SECOND_MS
        # One in a hundred waits until the phone is online again.
        delay = chance.randrange(5 * _HOUR_MS) if chance.random() < 0.01 else chance.randrange(120 * _SECOND_MS)
        yield time + delay, Event(user, {"page": chance.choice(_PAGES)}, time)


VIEWS = "views"
#: Page views that the command writes.
COUNT = 20_000


if __name__ == "__main__":
    sys.exit(load_command("visits", lambda _: [(VIEWS, page_views(COUNT))]))
