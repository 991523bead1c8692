"""Runs the variants of workloads in turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.workloads.base import Workload
from samzapy.bench.measuring import Measurement, MeasurementFailed

Say = Callable[[str], None]


@dataclass(frozen=True)
class Turns:
    """What came of it: the repeats of each variant, and why others have none."""

    repeats: Mapping[str, Sequence[Measurement]]
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Runner:
    """One variant of one workload, under the name that its repeats get, and how many of them there are to be."""

    name: str
    workload: Workload
    variant: str
    times: int

    def run(self) -> Measurement:
        return self.workload.run(self.variant)


def take_turns(runners: Sequence[Runner], say: Say) -> Turns:
    """Run each once, then each again, as often as it is to run. One that fails leaves, with all its repeats."""
    repeats: dict[str, list[Measurement]] = {runner.name: [] for runner in runners}
    failures: dict[str, str] = {}
    for number in range(1, max((runner.times for runner in runners), default=0) + 1):
        for runner in runners:
            if runner.name in failures or number > runner.times:
                continue
            label = f"{runner.workload.name} {number}/{runner.times} {runner.name}"
            try:
                measured = runner.run()
            except MeasurementFailed as failure:
                failures[runner.name] = str(failure)
                del repeats[runner.name]
                say(f"{label}: {failure}")
                continue
            repeats[runner.name].append(measured)
            say(f"{label}: {measured.messages_per_s:,.0f} msg/s, {measured.cpu_s_per_million:.2f} CPU-s/M")
    return Turns(repeats, failures)
