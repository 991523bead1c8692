"""Departures with the weather at their airport: what was observed last before each, at most an hour earlier."""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.task import EndOfStreamListenerTask, WindowableTask
from samzapy.examples.joins.sending import SendingTask, inputs
from samzapy.operators.joins import AsOfJoin, Joined

#: An older observation says nothing about a departure.
OBSERVED_WITHIN_MS = 3_600_000


class DeparturesWeatherTask(SendingTask, WindowableTask, EndOfStreamListenerTask):
    """Sends each departure with its `weather`, None where nothing was observed in time; by airport."""

    _departures: AsOfJoin

    def init(self, context: Context) -> None:
        super().init(context)
        streams = inputs(context, "airport-departures", "airport-weather")
        self._departures = AsOfJoin(context, "departures", streams, OBSERVED_WITHIN_MS)

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.send(self._departures.add(envelope), collector)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._departures.advance(), collector)

    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        self.send(self._departures.finish(), collector)

    def message(self, joined: Joined) -> dict[str, Any]:
        departure, weather = joined.left, joined.right
        assert departure is not None, "every result is a departure"
        observed = None if weather is None else {"observed_ms": weather.time_ms, **weather.value}
        return {"departed_ms": departure.time_ms, **departure.value, "weather": observed}
