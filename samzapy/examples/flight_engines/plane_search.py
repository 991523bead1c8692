"""Planes by words of their maker and model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.examples.flight_engines.report import ReportingTask
from samzapy.storage.views import InvertedIndex


class PlaneSearchTask(ReportingTask):
    """Keeps the register of planes in the inverted index `planes`, and answers the queries of `plane.search.queries`
    (separated by semicolons) at the end."""

    _planes: InvertedIndex
    _queries: list[str]

    def init(self, context: Context) -> None:
        super().init(context)
        self._planes = context.get_store("planes", InvertedIndex)
        self._queries = [query.strip() for query in context.job.config["plane.search.queries"].split(";")]

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        plane = envelope.message
        if plane is None:
            self._planes.delete(envelope.key)
        else:
            self._planes.add(envelope.key, f"{plane['manufacturer']} {plane['model']}")

    def report(self) -> Iterator[tuple[str, Any]]:
        for query in self._queries:
            yield (
                query,
                [{"plane": hit.document, "score": round(hit.score, 6)} for hit in self._planes.search(query, 5)],
            )
