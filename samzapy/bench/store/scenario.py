"""What every scenario is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from samzapy.bench.store.material import Material
from samzapy.bench.store.parameters import Parameters
from samzapy.bench.store.stopwatch import Stopwatch
from samzapy.bench.store.targets import Target

#: The stopwatch of a part of the scenario; most have one part, "".
WatchOf = Callable[[str], Stopwatch]

#: Writes between two looks at the budget.
_STEP = 1_000


class Scenario(ABC):
    """One load. The constructor reads its parameters, `prepare` fills the target, `run` is one repeat.

    Every scenario takes `commit.every`: writes between two commits (0: when the store is over its budget, as a
    container does, and at the end).
    """

    #: Whether each repeat starts with an empty target.
    fresh = False

    def __init__(self, material: Material, parameters: Parameters) -> None:
        self.material = material
        self.commit_every = parameters.integer("commit.every", 0, least=0)

    def prepare(self, target: Target) -> None:  # noqa: B027
        """Before the first repeat, not measured; nothing by default."""

    @abstractmethod
    def run(self, target: Target, watch_of: WatchOf) -> None:
        """One repeat: what counts happens inside `with watch_of(part)`, and its operations are counted there."""

    def fill(self, target: Target, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Put every key, committed."""
        for start in range(0, len(keys), _STEP):
            end = start + _STEP
            target.store.put_all(list(zip(keys[start:end], values[start:end], strict=True)))
            if target.over_budget():
                target.commit()
        target.commit()

    def written(self, target: Target, count: int, write: Callable[[int, int], object]) -> None:
        """`write(start, end)` in steps up to `count`, with the commits between and one at the end."""
        step = min(_STEP, self.commit_every or _STEP)
        since = 0
        for start in range(0, count, step):
            end = min(start + step, count)
            write(start, end)
            since += end - start
            if (self.commit_every and since >= self.commit_every) or target.over_budget():
                target.commit()
                since = 0
        if since:
            target.commit()
