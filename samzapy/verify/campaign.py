"""Runs the scenarios of one command, or random ones until the time is over, and puts their results into a table."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.task import Guarantee
from samzapy.verify.scenario import Listener, Plan, Row, Scenario
from samzapy.verify.target import Target, spread

#: Events and faults of a round of a soak, and the most seconds of a round without a problem.
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
    """Plans drawn from the seed, as long as another one will probably end within `seconds` from now; at least one."""
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
    """Runs plans on one target, each in its own folder below `folder`; keeps only the folders of broken promises."""

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


COLUMNS = (
    "scenario",
    "events",
    "faults",
    "lost",
    "duplicated",
    "reordered",
    "mismatches",
    "recovery s",
    "verdict",
)


def cells(row: Row) -> tuple[str, ...]:
    """A scenario's line; `recovery s` is the longest."""
    count = row.verdict.count
    return (
        row.plan.scenario,
        f"{row.plan.events:,}",
        str(len(row.struck)),
        f"{count('loss'):,}",
        f"{count('duplicates'):,}",
        f"{count('order'):,}",
        f"{row.verdict.mismatches:,}",
        _longest(row.recoveries_s),
        row.word,
    )


def _longest(recoveries_s: Iterable[float]) -> str:
    longest_s = max(recoveries_s, default=None)
    return "" if longest_s is None else f"{longest_s:.1f}"


def totals(rows: Sequence[Row], name: str = "all") -> tuple[str, ...]:
    """The sum of the lines."""

    def total(check: str) -> str:
        return f"{sum(row.verdict.count(check) for row in rows):,}"

    return (
        name,
        f"{sum(row.plan.events for row in rows):,}",
        str(sum(len(row.struck) for row in rows)),
        total("loss"),
        total("duplicates"),
        total("order"),
        f"{sum(row.verdict.mismatches for row in rows):,}",
        _longest(seconds for row in rows for seconds in row.recoveries_s),
        "kept" if all(row.kept for row in rows) else "BROKEN",
    )


def by_guarantee(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The lines of a soak: a total for each guarantee, with the rounds it had."""
    lines = []
    for guarantee in dict.fromkeys(row.plan.guarantee for row in rows):
        own = [row for row in rows if row.plan.guarantee is guarantee]
        lines.append(totals(own, f"{guarantee.value} ({len(own)})"))
    return lines


def remarks(rows: Iterable[Row]) -> list[str]:
    """Each violation, and the reason of each restart without a kill: the table has no room for them."""
    lines = []
    for row in rows:
        lines += [f"{row.plan}: {finding}" for finding in row.verdict.violations]
        lines += [f"{row.plan}: the job ended by itself and was started again: {why}" for why in row.gave_up]
    return lines
