"""Computes count, sum and maximum of the departure delays by airline and hour, and within them by model of the plane.

Both inputs are keyed by tail number, so a plane and its flights reach the same task, and the job file makes `planes` a
bootstrap stream: a start reads all planes before the first flight. Values are plain dicts and lists, so that any serde
can write them. They do not depend on the order of the messages, so the values of several tasks can be merged.
"""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.task import InitableTask, StreamTask

#: Delays of some flights: their number, sum and maximum in minutes.
Sample = list[int]

#: `flights` and `cancelled` count departures; `delay` is the Sample of the flights that left (None before the first);
#: `models` has the Samples by model, of flights with a known plane.
Delays = dict[str, Any]


class FlightDelayTask(StreamTask, InitableTask):
    """Keeps `delays` by "carrier hour", and `planes`, the model by tail number."""

    _planes: KeyValueStore[str, str]
    _delays: KeyValueStore[str, Delays]

    def init(self, context: Context) -> None:
        self._planes = context.get_store("planes")
        self._delays = context.get_store("delays")

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        if envelope.ssp.stream == "planes":
            self._planes.put(envelope.key, envelope.message["model"])
            return
        flight = envelope.message
        key = f"{flight['carrier']} {flight['hour']:02}"
        delays = self._delays.get(key) or empty()
        delays["flights"] += 1
        minutes = flight["dep_delay"]
        if minutes is None:
            delays["cancelled"] += 1
        else:
            sample = [1, minutes, minutes]
            delays["delay"] = merge(delays["delay"], sample)
            model = None if envelope.key is None else self._planes.get(envelope.key)
            if model is not None:
                delays["models"][model] = merge(delays["models"].get(model), sample)
        self._delays.put(key, delays)


def empty() -> Delays:
    """No flights."""
    return {"flights": 0, "cancelled": 0, "delay": None, "models": {}}


def merge(one: Sample | None, other: Sample | None) -> Sample | None:
    """The sample of both."""
    if one is None or other is None:
        return other if one is None else one
    return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


def merge_all(one: Delays, other: Delays) -> Delays:
    """The value of both: counts, delays and models."""
    models = dict(one["models"])
    for model, sample in other["models"].items():
        models[model] = merge(models.get(model), sample)
    return {
        "flights": one["flights"] + other["flights"],
        "cancelled": one["cancelled"] + other["cancelled"],
        "delay": merge(one["delay"], other["delay"]),
        "models": models,
    }
