"""The scenarios of one command, or random ones until the time is over, and the table of their results."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.config.task import Guarantee
from samzapy.verify.checkers import Verdict
from samzapy.verify.target import Fault, Kind, spread

#: Events and faults of a round of a soak, and the most seconds of a round without a problem.
_SOAK_EVENTS = (4_000, 40_000)
_SOAK_FAULTS = (1, 6)
_SOAK_ROUND_S = 45.0
_MOST_SEEDS = 1 << 32


@dataclass(frozen=True)
class Plan:
    """A scenario to run: the number of events and faults; `seed` and the scenario's name decide everything else."""

    scenario: str
    guarantee: Guarantee
    events: int
    faults: int
    seed: int

    def __str__(self) -> str:
        return f"{self.guarantee.value} {self.scenario}"

    @property
    def own_seed(self) -> str:
        """A different seed for each scenario of a command."""
        return f"{self.seed}/{self.scenario}"


def plans(guarantee: Guarantee, events: int, kills: int, scenarios: Sequence[str], seed: int) -> tuple[Plan, ...]:
    """A plan for each scenario that gets a kill, with its part of the events."""
    faults = spread(kills, scenarios)
    share, left = divmod(events, len(faults))
    return tuple(
        Plan(scenario, guarantee, share + (number < left), count, seed)
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


@dataclass(frozen=True, kw_only=True)
class Row:
    """The end of a scenario. `recoveries_s`: the seconds after each fault that was waited for. `gave_up`: why the job
    ended by itself.

    The streams of a `job` that broke its promise are kept; their names begin with the job's.
    """

    plan: Plan
    verdict: Verdict
    struck: tuple[Fault, ...]
    recoveries_s: tuple[float, ...]
    seconds: float
    job: str = ""
    gave_up: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return not self.verdict.violations

    @property
    def word(self) -> str:
        """The verdict in a word. `refused`: the job refused each record of another writer, and kept its promise."""
        if not self.kept:
            return "BROKEN"
        return "refused" if self.plan.scenario == Kind.FOREIGN_WRITER.value else "kept"

    def to_json(self) -> dict[str, Any]:
        """All fields as plain values."""
        count = self.verdict.count
        return {
            "scenario": self.plan.scenario,
            "guarantee": self.plan.guarantee.value,
            "job": self.job,
            "seed": self.plan.seed,
            "events": self.plan.events,
            "faults": len(self.struck),
            "schedule": [str(fault) for fault in self.struck],
            "lost": count("loss"),
            "duplicated": count("duplicates"),
            "reordered": count("order"),
            "mismatches": self.verdict.mismatches,
            "recovery_s": [round(seconds, 2) for seconds in self.recoveries_s],
            "seconds": round(self.seconds, 1),
            "gave_up": list(self.gave_up),
            "violations": [str(finding) for finding in self.verdict.violations],
            "kept": self.kept,
        }


COLUMNS = ("scenario", "events", "faults", "lost", "duplicated", "reordered", "mismatches", "recovery s", "verdict")


def cells(rows: Sequence[Row], name: str = "all") -> tuple[str, ...]:
    """The line of one or more scenarios: sums; `recovery s` is the longest."""

    def total(check: str) -> str:
        return f"{sum(row.verdict.count(check) for row in rows):,}"

    longest_s = max((seconds for row in rows for seconds in row.recoveries_s), default=None)
    words = {row.word for row in rows}
    return (
        name,
        f"{sum(row.plan.events for row in rows):,}",
        str(sum(len(row.struck) for row in rows)),
        total("loss"),
        total("duplicates"),
        total("order"),
        f"{sum(row.verdict.mismatches for row in rows):,}",
        "" if longest_s is None else f"{longest_s:.1f}",
        "BROKEN" if "BROKEN" in words else words.pop() if len(words) == 1 else "kept",
    )


def by_guarantee(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The lines of a soak: a total for each guarantee, with the rounds it had."""
    lines = []
    for guarantee in dict.fromkeys(row.plan.guarantee for row in rows):
        own = [row for row in rows if row.plan.guarantee is guarantee]
        lines.append(cells(own, f"{guarantee.value} ({len(own)})"))
    return lines


def remarks(rows: Iterable[Row]) -> list[str]:
    """Each violation, and the reason of each restart without a kill: the table has no room for them."""
    lines = []
    for row in rows:
        lines += [f"{row.plan}: {finding}" for finding in row.verdict.violations]
        lines += [f"{row.plan}: the job ended by itself and was started again: {why}" for why in row.gave_up]
    return lines
