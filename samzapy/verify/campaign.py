"""The scenarios of one command, one after the other; or random ones until the time is over."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.guarantee import Guarantee
from samzapy.verify.scenario import Listener, Plan, Row, Scenario
from samzapy.verify.schedule import spread
from samzapy.verify.target import Target

#: Events and faults of a round of a soak, and the seconds that one takes at most when all is well.
_SOAK_EVENTS = (4_000, 40_000)
_SOAK_FAULTS = (1, 6)
_SOAK_ROUND_S = 45.0
_MOST_SEEDS = 1 << 32


def plans(guarantee: Guarantee, events: int, kills: int, scenarios: Sequence[str], seed: int) -> tuple[Plan, ...]:
    """A plan for each scenario that gets a kill, with its part of the events."""
    faults = spread(kills, scenarios)
    each, left = divmod(events, len(faults))
    return tuple(
        Plan(scenario, guarantee, each + (number < left), count, seed)
        for number, (scenario, count) in enumerate(faults.items())
    )


def soak(
    guarantees: Sequence[Guarantee], scenarios: Sequence[str], seconds: float, seed: int, clock: Clock = SYSTEM_CLOCK
) -> Iterator[Plan]:
    """Plans drawn from the seed, as long as another one is likely to end within `seconds` from now; one at least."""
    chance = random.Random(seed)
    deadline = clock.monotonic() + seconds - _SOAK_ROUND_S
    number = 0
    while number == 0 or clock.monotonic() < deadline:
        number += 1
        guarantee = chance.choice(list(guarantees))
        scenario = chance.choice(list(scenarios))
        events, faults = chance.randint(*_SOAK_EVENTS), chance.randint(*_SOAK_FAULTS)
        yield Plan(scenario, guarantee, events, faults, chance.randrange(_MOST_SEEDS))


class Campaign:
    """Runs plans on one target, each in a folder of its own below `folder`; what broke no promise is removed."""

    def __init__(self, target: Target, folder: Path, listener: Listener) -> None:
        self._target = target
        self._folder = folder
        self._listener = listener
        self._number = 0

    def run(self, plan: Plan) -> Row:
        """One scenario. Raises JobRefused, ConfigError, EnvironmentFailure."""
        self._number += 1
        folder = self._folder / f"{self._number:03d}-{plan.scenario}-{plan.guarantee.value}"
        row = Scenario(plan, self._target, folder, self._listener).run()
        if row.kept:
            shutil.rmtree(folder, ignore_errors=True)
        return row
