"""Percentiles of times in nanoseconds, as milliseconds."""

from __future__ import annotations

from collections.abc import Collection

SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p99.9_ms": 0.999, "max_ms": 1.0}


def percentiles(times_ns: Collection[int]) -> dict[str, float]:
    """By name. Without a time there are none."""
    if not times_ns:
        return {}
    ordered = sorted(times_ns)
    last = len(ordered) - 1
    return {name: round(ordered[round(share * last)] / 1e6, 3) for name, share in SHARES.items()}
