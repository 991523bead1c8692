"""What is kept per airline and hour of departure; plain dicts and lists, so that any serde writes them.

The order of messages does not change a value, so partial values of several tasks merge to the value of one.
"""

from __future__ import annotations

from typing import Any

#: Delays of some flights: how many, the sum of their minutes, the most minutes.
Sample = list[int]

#: `flights` and `cancelled` count departures, `delay` is the Sample of those that left (None: none yet), `models`
#: the Samples by plane model of those whose plane is known.
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
    """Both samples together."""
    if one is None or other is None:
        return other if one is None else one
    return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


def mean(sample: Sample | None) -> float | None:
    """Mean minutes of delay, None of no flights."""
    return sample[1] / sample[0] if sample else None


def merge_all(one: Delays, other: Delays) -> Delays:
    """Both values together, counts, delays and models."""
    models = dict(one["models"])
    for model, sample in other["models"].items():
        models[model] = merge(models.get(model), sample)
    return {
        "flights": one["flights"] + other["flights"],
        "cancelled": one["cancelled"] + other["cancelled"],
        "delay": merge(one["delay"], other["delay"]),
        "models": models,
    }
