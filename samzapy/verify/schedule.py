"""Draws the faults of a scenario, and the events after which they strike, from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The kinds of faults."""

    WORKER = "worker"
    """SIGKILL to a Python worker that runs a container."""
    EXECUTOR = "executor"
    """SIGKILL to an executor's JVM."""
    DRIVER = "driver"
    """SIGKILL to the driver, and a new one at once."""
    ZOMBIE = "zombie"
    """SIGSTOP to a worker until its lease is over, and SIGCONT."""
    OVERLAP = "overlap"
    """A second run with other containers while the first goes on, or is stopped by SIGSTOP until the second is at work."""
    FOREIGN_WRITER = "foreign-writer"
    """A record of another writer in a changelog: the job must refuse it until it is corrected and adopted."""
    BROKER_RESTART = "broker-restart"
    """The broker stops in good order and comes back."""
    BROKER_KILL = "broker-kill"
    """SIGKILL to the broker, which comes back."""


#: The scenario that draws from all kinds, and sometimes strikes again before the job has recovered.
MIXED = "mixed"

#: Where in its stretch of events a fault strikes, so that events come in before and after it.
_EARLIEST, _LATEST = 0.15, 0.6
_PATIENT = 0.7


class Fault(NamedTuple):
    """A fault that strikes once `after` events are written. `until` is where its stretch of events ends.

    `choice` chooses among the processes there are: it is taken modulo their number. Not `patient`: the next fault does
    not wait for the job to recover from this one.
    """

    kind: Kind
    after: int
    until: int
    choice: int
    patient: bool = True

    def __str__(self) -> str:
        return f"{self.kind.value}@{self.after}"


def schedule(scenario: str, kinds: Sequence[Kind], faults: int, events: int, seed: str) -> tuple[Fault, ...]:
    """`faults` faults over `events` events; the first of `faults` + 1 stretches is left alone, for the job to start."""
    chance = random.Random(f"{seed}/faults")
    stretch = events / (faults + 1)
    found = []
    for number in range(1, faults + 1):
        kind = chance.choice(list(kinds)) if scenario == MIXED else Kind(scenario)
        after = int(stretch * (number + chance.uniform(_EARLIEST, _LATEST)))
        until = events if number == faults else int(stretch * (number + 1))
        patient = scenario != MIXED or chance.random() < _PATIENT
        found.append(Fault(kind, after, until, chance.randrange(1 << 16), patient))
    return tuple(found)


def spread(kills: int, scenarios: Sequence[str]) -> dict[str, int]:
    """Kills by scenario: alike for all, what is left over to `mixed` (else to the first ones); none without any."""
    each, left = divmod(kills, len(scenarios))
    found = dict.fromkeys(scenarios, each)
    if each and MIXED in found:
        found[MIXED] += left
    else:
        for scenario in list(scenarios)[:left]:
            found[scenario] += 1
    return {scenario: count for scenario, count in found.items() if count}
