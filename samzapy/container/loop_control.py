"""What a run loop is told from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from samzapy.api.stream import SystemStreamPartition


def _never() -> None:
    """Nobody drains the job."""


@dataclass(frozen=True)
class LoopControl:
    """What a run loop looks at: `should_stop` between slices (it may raise to end the attempt without a commit), and
    between polls `drain_to`, which says where the inputs end once the job is to be drained, None until then."""

    should_stop: Callable[[], bool]
    drain_to: Callable[[], Mapping[SystemStreamPartition, int] | None] = _never
