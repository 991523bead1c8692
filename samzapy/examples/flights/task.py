"""Count, sum and maximum of the departure delay per airline and hour, by the model of the plane.

Two inputs, both keyed by tail number, so that a plane and its flights meet in the same task. Nothing promises that a
plane comes before its flights: what a flight adds to its plane's model waits in a store until the plane comes, as one
value a tail number however many flights there are, and for good if it never comes.
"""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.task import InitableTask, StreamTask
from samzapy.examples.flights.delays import Delays, Sample, add, empty, merge

PLANES = "planes"


class FlightDelayTask(StreamTask, InitableTask):
    """Keeps `delays` by "carrier hour", `planes` (tail number to model), and `waiting`: by tail number, what its
    flights have added to each key of `delays` and not yet to a model."""

    _planes: KeyValueStore[str, str]
    _delays: KeyValueStore[str, Delays]
    _waiting: KeyValueStore[str, dict[str, Sample]]

    def init(self, context: Context) -> None:
        self._planes = context.get_store("planes")
        self._delays = context.get_store("delays")
        self._waiting = context.get_store("waiting")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        if envelope.ssp.stream == PLANES:
            self._plane(envelope.key, envelope.message)
        else:
            self._flight(envelope.message)

    def _flight(self, flight: dict[str, Any]) -> None:
        key = f"{flight['carrier']} {flight['hour']:02}"
        minutes = flight["dep_delay"]
        delays = self._delays.get(key) or empty()
        delays["flights"] += 1
        if minutes is None:
            delays["cancelled"] += 1
        else:
            delays["delay"] = add(delays["delay"], minutes)
            self._add_to_model(delays["models"], key, flight["tailnum"], minutes)
        self._delays.put(key, delays)

    def _add_to_model(self, models: dict[str, Sample], key: str, tail: str | None, minutes: int) -> None:
        if tail is None:
            return
        model = self._planes.get(tail)
        if model is not None:
            models[model] = add(models.get(model), minutes)
            return
        waiting = self._waiting.get(tail) or {}
        waiting[key] = add(waiting.get(key), minutes)
        self._waiting.put(tail, waiting)

    def _plane(self, tail: str, plane: dict[str, Any] | None) -> None:
        if plane is None:
            self._planes.delete(tail)
            return
        model = plane["model"]
        self._planes.put(tail, model)
        waiting = self._waiting.get(tail)
        if waiting is None:
            return
        for key, sample in waiting.items():
            delays = self._delays.get(key) or empty()
            delays["models"][model] = merge(delays["models"].get(model), sample)
            self._delays.put(key, delays)
        self._waiting.delete(tail)
