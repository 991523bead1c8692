"""The operators beside loops by hand, as `benchmarks/operators.py` has them: in one process, without a broker.

python -m benchmarks.workloads.operators NAME COUNT      one of them, once: a line of JSON
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict

from benchmarks.kafka import Kafka
from benchmarks.operators import COUNT, OPERATORS, measure
from benchmarks.workloads.base import BARE, Comparison, Workload
from samzapy.bench.measuring import Measurement, MeasurementFailed, Program

_LONGEST_S = 600


def slug_of(operator: str) -> str:
    """The name of an operator's variant."""
    return re.sub(r"[^a-z0-9]+", "-", operator.lower()).strip("-")


_BY_SLUG = {slug_of(name): name for name in OPERATORS}


class Operators(Workload):
    """A variant is an operator's name in lower case with hyphens, and `bare.` before it for its loop by hand. Both are
    measured in one process, one after the other; the seconds are CPU seconds."""

    name = "operators"
    variants = tuple(part for slug in _BY_SLUG for part in (f"{BARE}.{slug}", slug))

    def __init__(self, kafka: Kafka, events: int, program: Program) -> None:
        super().__init__(kafka, events, program)
        self._count = min(events, COUNT)
        #: The operators' runs that came with their loops'.
        self._taken: dict[str, list[Measurement]] = {}

    def prepare(self) -> None:
        """Each run makes its messages."""

    def run(self, variant: str) -> Measurement:
        slug = variant.removeprefix(f"{BARE}.")
        if variant == slug and self._taken.get(slug):
            return self._taken[slug].pop()
        by_hand, ours = self._pair(_BY_SLUG[slug])
        if variant == slug:
            return ours
        self._taken.setdefault(slug, []).append(ours)
        return by_hand

    def _pair(self, operator: str) -> tuple[Measurement, Measurement]:
        command = [str(self._program.python), "-m", __name__, operator, str(self._count)]
        try:
            done = subprocess.run(
                command, cwd=self._program.folder, capture_output=True, text=True, check=False, timeout=_LONGEST_S
            )
        except subprocess.TimeoutExpired as cause:
            raise MeasurementFailed(f"{operator}: not done after {_LONGEST_S} s") from cause
        if done.returncode:
            raise MeasurementFailed(f"{operator}: exit code {done.returncode}: {done.stderr.strip()[-500:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        return self._measurement(found["by_hand_cpu_s"]), self._measurement(found["cpu_s"])

    def _measurement(self, cpu_s_per_million: float) -> Measurement:
        cpu_s = cpu_s_per_million * self._count / 1e6
        return Measurement(self._count, cpu_s, cpu_s, cpu_s, {"main": 0, "tree": 0})

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        if not cls.runs_samzapy(variant):
            return ()
        return (Comparison(f"{cls.name}.{variant}", f"{BARE}.{variant}"),)


def main() -> None:
    print(json.dumps(asdict(measure(sys.argv[1], 1, int(sys.argv[2])))))


if __name__ == "__main__":
    main()
