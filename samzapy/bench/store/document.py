"""A whole run as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samzapy.bench.machine import describe_machine, describe_versions
from samzapy.bench.store.plan import Plan
from samzapy.bench.store.results import CaseResult, RatioResult

_FORMAT = 1


def document(
    name: str, plan: Plan, scale: float, results: Sequence[CaseResult], ratios: Sequence[RatioResult]
) -> dict[str, Any]:
    """What ran, on which machine, and every repeat of every case."""
    return {
        "format": _FORMAT,
        "file": name,
        "seed": plan.seed,
        "repeats": plan.repeats,
        "warmup": plan.warmup,
        "scale": scale,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "results": [result.to_json() for result in results],
        "ratios": [ratio.to_json() for ratio in ratios],
    }
