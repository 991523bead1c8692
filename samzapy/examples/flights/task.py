"""Computes count, sum and maximum of the departure delays by airline and hour, and within them by model of the plane.

Values are plain dicts and lists, so that any serde can write them. They do not depend on the order of the messages, so
the partial values of several tasks can be merged.

Both inputs are keyed by tail number, so a plane and its flights reach the same task. A flight may come before its
plane; its delay then waits in a store until the plane comes, and for good if it never does. The store holds one value
for each tail number, however many flights wait.
"""

from __future__ import annotations

from typing import Any

from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.envelope import IncomingMessageEnvelope
from samzapy.api.kv import KeyValueStore
from samzapy.api.task import InitableTask, StreamTask

PLANES = "planes"


class FlightDelayTask(StreamTask, InitableTask):
    """Keeps `delays` by "carrier hour", `planes` (the model by tail number), and `waiting`: by tail number, the delays
    that its flights have added to each key of `delays`, but not yet to a model."""

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


#: Delays of some flights: their number, sum and maximum in minutes.
Sample = list[int]

#: `flights` and `cancelled` count departures; `delay` is the Sample of the flights that left (None before the first);
#: `models` has the Samples by model, of flights with a known plane.
Delays = dict[str, Any]


def empty() -> Delays:
    """No flights."""
    return {"flights": 0, "cancelled": 0, "delay": None, "models": {}}


def add(sample: Sample | None, minutes: int) -> Sample:
    """The sample with one more flight."""
    if sample is None:
        return [1, minutes, minutes]
    count, total, most = sample
    return [count + 1, total + minutes, max(most, minutes)]


def merge(one: Sample | None, other: Sample | None) -> Sample | None:
    """The sample of both."""
    if one is None or other is None:
        return other if one is None else one
    return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


def mean(sample: Sample | None) -> float | None:
    """The mean delay in minutes; None without flights."""
    return sample[1] / sample[0] if sample else None


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
