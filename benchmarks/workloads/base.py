"""What a workload is, and what its runs have in common."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.kafka import CONFIGS, PARTITIONS, Kafka
from samzapy.admin.take_over import adopt
from samzapy.bench.measuring import LOCAL, SPARK, Measurement, Program, measure, measure_job
from samzapy.config.loader import load_job

ROOT = Path(__file__).parents[2]
BARE = "bare"
#: The environment of a program without the compiled extension.
_NOT_COMPILED = {"SAMZAPY_NATIVE": "0"}
_ON_SPARK = {"job.spark.master": "local[1]"}


@dataclass(frozen=True)
class Comparison:
    """A variant beside another one: `name` begins the names of its ratios."""

    name: str
    baseline: str


class Workload(ABC):
    """One workload on one broker, with the samzapy of `program`."""

    name: str
    variants: tuple[str, ...]
    repeats = 5

    def __init__(self, kafka: Kafka, events: int, program: Program) -> None:
        self._kafka = kafka
        self._events = events
        self._program = program

    @abstractmethod
    def prepare(self) -> None:
        """Make the inputs."""

    @abstractmethod
    def run(self, variant: str) -> Measurement:
        """One run of a variant. Raises MeasurementFailed."""

    @classmethod
    @abstractmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        """The variants that this one is compared with; none for one that others are compared with."""

    @classmethod
    def times(cls, variant: str) -> int:
        """How often the variant is run unless the command line says."""
        return cls.repeats

    @classmethod
    def runs_samzapy(cls, variant: str) -> bool:
        """Whether the variant's runs are samzapy's, and not a loop's by hand."""
        return not variant.startswith(BARE)

    def _loop(self, module: str, **options: str | int | Path) -> Measurement:
        return self._alone(module, bootstrap=self._kafka.bootstrap, **options)

    def _alone(self, module: str, **options: str | int | Path) -> Measurement:
        """One run of a loop that needs no Kafka."""
        command = ["-m", f"benchmarks.bare.{module}"]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        return measure(command, program=Program(Path(sys.executable), ROOT))

    def _job(
        self, name: str, runner: str, overrides: Mapping[str, str], marks: Path | None = None, *, compiled: bool = True
    ) -> Measurement:
        folder = self._kafka.folder / self._kafka.unique("state")
        config = {
            "job.id": self._kafka.unique("run"),
            "job.logged.store.base.dir": str(folder),
            **self._kafka.overrides,
            **(_ON_SPARK if runner == SPARK else {}),
            **overrides,
        }
        job = CONFIGS / f"{name}.properties"
        program = self._program if compiled else replace(self._program, environment=_NOT_COMPILED)
        return measure_job(job, config, runner, endless=marks is not None, marks=marks, program=program)

    def _adopt(self, name: str, overrides: Mapping[str, str]) -> None:
        """Make the changelog records of the benchmark the job's own."""
        adopt(load_job(CONFIGS / f"{name}.properties", {**self._kafka.overrides, **overrides}), [])

    def _with_changelog(self, measured: Measurement, changelog: str, partitions: int = PARTITIONS) -> Measurement:
        per_put = self._kafka.records(changelog, partitions) / measured.messages if measured.messages else 0.0
        return replace(measured, more={**measured.more, "changelog_records_per_put": per_put})


class BesideBareLoop(Workload):
    """A workload that is also done by hand, in one way."""

    variants: tuple[str, ...] = (BARE, LOCAL, SPARK)

    @abstractmethod
    def bare(self) -> Measurement:
        """One run of the loop written by hand."""

    @abstractmethod
    def samzapy(self, runner: str) -> Measurement:
        """One run by samzapy."""

    def run(self, variant: str) -> Measurement:
        return self.bare() if variant == BARE else self.samzapy(variant)

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        if variant == BARE:
            return ()
        return (Comparison(cls.name if variant == LOCAL else f"{cls.name}.{variant}", BARE),)


@dataclass(frozen=True)
class Way:
    """One way to do a workload: by hand with the `options` of its loop, or by samzapy with the `keys` of its job, in
    whose names `{input}` and `{output}` stand for the topics.

    `like` names the loop by hand that does the same with the same means, `beside` the variant that differs in nothing
    but the guarantee, or in that it is not `compiled`.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    runner: str = LOCAL
    like: str | None = None
    beside: str | None = None
    compiled: bool = True

    def keys_for(self, **topics: str) -> dict[str, str]:
        """The keys with the names of topics."""
        return {key.format(**topics): value for key, value in self.keys.items()}


class InManyWays(Workload):
    """A workload with several ways by hand and several with samzapy; the plain loop, `bare`, is every target's
    baseline."""

    ways: Mapping[str, Way]
    #: A start of Spark takes longer than the run.
    repeats_on_spark = 3

    @abstractmethod
    def bare(self, way: Way) -> Measurement:
        """One run of a loop written by hand."""

    @abstractmethod
    def samzapy(self, way: Way) -> Measurement:
        """One run by samzapy."""

    def run(self, variant: str) -> Measurement:
        way = self.ways[variant]
        return self.samzapy(way) if self.runs_samzapy(variant) else self.bare(way)

    @classmethod
    def times(cls, variant: str) -> int:
        return cls.repeats_on_spark if cls.ways[variant].runner == SPARK else cls.repeats

    @classmethod
    def comparisons(cls, variant: str) -> tuple[Comparison, ...]:
        if not cls.runs_samzapy(variant):
            return ()
        way = cls.ways[variant]
        short = variant.removeprefix(LOCAL).lstrip(".")
        name = f"{cls.name}.{short}" if short else cls.name
        others = [item for item in (way.like, way.beside) if item not in {None, BARE}]
        return (Comparison(name, BARE), *(Comparison(f"{name}/{other}", other) for other in others if other))


def in_both_guarantees(ways: Mapping[str, Way], *variants: str) -> dict[str, Way]:
    """The ways, each of `variants` followed by the same in exactly-once."""
    result: dict[str, Way] = {}
    for name, way in ways.items():
        result[name] = way
        if name in variants:
            keys = {**way.keys, "task.guarantee": "exactly-once"}
            result[f"{name}.exactly-once"] = replace(way, keys=keys, like=None, beside=name)
    return result


def also_not_compiled(ways: Mapping[str, Way], *variants: str) -> dict[str, Way]:
    """The ways, each of `variants` followed by the same without the compiled extension."""
    result: dict[str, Way] = {}
    for name, way in ways.items():
        result[name] = way
        if name in variants:
            result[f"{name}.not-compiled"] = replace(way, compiled=False, like=None, beside=name)
    return result
