"""Two results of one file, and which medians got worse."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samzapy.errors import ConfigError, ConfigProblem

#: What must be the same for two rates to be comparable.
_SAME = ("scenario", "target", "store_keys", "parameters")


@dataclass(frozen=True)
class Comparison:
    """One case. `change` is the share by which its median rate grew (negative: shrank), None where `remark` says why
    there is none; `worse` if it shrank by more than is allowed."""

    name: str
    before: float | None
    now: float | None
    change: float | None
    worse: bool
    remark: str = ""


def read_results(path: Path) -> dict[str, Any]:
    """What `--json` wrote. Raises ConfigError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "no JSON"
        raise ConfigError([ConfigProblem("--compare", str(path), f"cannot read ({reason})")]) from cause
    if not isinstance(found, dict) or not isinstance(found.get("results"), list):
        raise ConfigError([ConfigProblem("--compare", str(path), "expected what --json wrote")])
    return found


def only_tests(baseline: Mapping[str, Any], tests: Collection[str]) -> dict[str, Any]:
    """The part of a result about these tests; all of it if none are named."""
    kept = [each for each in baseline["results"] if not tests or each["test"] in tests]
    return {**baseline, "results": kept}


def compare(baseline: Mapping[str, Any], current: Mapping[str, Any], fail_on: float) -> list[Comparison]:
    """Case by case, by the medians of operations a second; `fail_on` is the share a median may shrink by.

    A case that is in one of the two only, or that was measured with other parameters, is listed and never worse.
    """
    before = {each["name"]: each for each in baseline["results"]}
    now = {each["name"]: each for each in current["results"]}
    return [_compared(name, before.get(name), now.get(name), fail_on) for name in {**before, **now}]


def _compared(name: str, before: Any, now: Any, fail_on: float) -> Comparison:
    old = before["median_ops_per_s"] if before else None
    new = now["median_ops_per_s"] if now else None
    if old is None or new is None:
        return Comparison(name, old, new, None, worse=False, remark="not run now" if now is None else "new")
    if any(before.get(key) != now.get(key) for key in _SAME):
        return Comparison(name, old, new, None, worse=False, remark="other parameters")
    change = new / old - 1.0 if old else 0.0
    return Comparison(name, old, new, change, worse=change < -fail_on)
