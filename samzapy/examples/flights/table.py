"""Prints the result of the flights job as a table of at most 80 columns.

python -m samzapy.examples.flights.table JOB.properties [--config key=value]...

The rows come from the changelogs of the job's stores, so they are the same on every system and every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import SystemConsumer
from samzapy.config.job import JobConfig
from samzapy.errors import EnvironmentFailure, SamzapyError, UnknownStream
from samzapy.examples.flights.dataset import airlines
from samzapy.examples.flights.load import job_from_arguments
from samzapy.examples.flights.task import Delays, empty, mean, merge_all
from samzapy.serializers import serde_registry
from samzapy.system.clients import system_factory

#: Flights that a model needs, within an airline and hour, for its mean to count.
ENOUGH = 20
#: Seconds without a record after which the reading of a changelog fails.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Row:
    """One airline and hour of departure. Delays are in minutes."""

    carrier: str
    hour: int
    delays: Delays

    @property
    def slowest_model(self) -> tuple[str, float] | None:
        """The model with the highest mean delay, and that mean; None if no model has `ENOUGH` flights."""
        means = [
            (total / count, model) for model, (count, total, _) in self.delays["models"].items() if count >= ENOUGH
        ]
        if not means:
            return None
        mean, model = max(means)
        return model, mean


@dataclass(frozen=True)
class Results:
    """All rows, in order of carrier and hour. `waiting` counts the flights of planes that are not in the register."""

    rows: tuple[Row, ...]
    waiting: int

    @property
    def total(self) -> Delays:
        """The value of all rows."""
        total = empty()
        for row in self.rows:
            total = merge_all(total, row.delays)
        return total


def read_results(job: JobConfig) -> Results:
    """Merge the committed states of the flights job's tasks. Raises UnknownStream if the job never ran."""
    merged: dict[str, Delays] = {}
    for key, delays in _contents(job, "delays"):
        known = merged.get(key)
        merged[key] = delays if known is None else merge_all(known, delays)
    rows = []
    for key in sorted(merged):
        carrier, hour = key.split()
        rows.append(Row(carrier, int(hour), merged[key]))
    waiting = sum(sample[0] for _, samples in _contents(job, "waiting") for sample in samples.values())
    return Results(tuple(rows), waiting)


def _contents(job: JobConfig, name: str) -> Iterator[tuple[Any, Any]]:
    """The entries of a store in all its tasks; a key occurs once for each task that has it."""
    store = job.stores[name]
    assert store.changelog is not None, "the flights job keeps a changelog of every store"
    serdes = serde_registry(job)
    system, stream = store.changelog
    settings = job.systems[system]
    factory = system_factory(settings)
    admin = factory.admin(settings, "flights-results")
    try:
        description = admin.describe(stream)
        if description is None:
            raise UnknownStream(system, stream)
        ssps = [SystemStreamPartition(system, stream, partition) for partition in range(description.partitions)]
        ranges = admin.offsets(ssps)
    finally:
        admin.close()
    for ssp in ssps:
        consumer = factory.consumer(settings, "flights-results")
        try:
            consumer.register(ssp, ranges[ssp].oldest)
            entries = _fold(consumer, ssp, ranges[ssp].upcoming)
        finally:
            consumer.close()
        for key, value in entries.items():
            yield serdes[store.key_serde].from_bytes(key), serdes[store.msg_serde].from_bytes(value)


def _fold(consumer: SystemConsumer, ssp: SystemStreamPartition, end: int) -> dict[bytes, bytes]:
    entries: dict[bytes, bytes] = {}
    consumer.start()
    while (position := consumer.position(ssp)) < end:
        batches = consumer.poll(PATIENCE_S, 10_000)
        for batch in batches:
            for key, value in zip(batch.keys, batch.values, strict=True):
                if key is None:
                    continue
                if value is None:
                    entries.pop(key, None)
                else:
                    entries[key] = value
        if not batches and consumer.position(ssp) == position:
            raise EnvironmentFailure(f"{ssp}@{position}: no record for {PATIENCE_S:.0f} s, the log ends at {end}")
    return entries


#: The number of rows in the table: the carriers and hours with the most flights.
SHOWN = 15


def results_table(results: Results, names: dict[str, str], shown: int = SHOWN) -> Table:
    """The airlines and hours with the most departures, the most delayed first."""
    busiest = sorted(results.rows, key=lambda row: row.delays["flights"], reverse=True)[:shown]
    table = Table(
        title=f"Departures from New York, 2013: the {len(busiest)} busiest of {len(results.rows)} airline hours",
        caption=f"delays in minutes; model: the highest mean of models with {ENOUGH} flights or more",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("airline", max_width=19, no_wrap=True)
    for name in ("hour", "flights", "canc.", "mean", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("most delayed model", max_width=21, no_wrap=True)
    for row in sorted(busiest, key=lambda row: mean(row.delays["delay"]) or 0.0, reverse=True):
        table.add_row(*_cells(row, names))
    return table


def totals_line(results: Results) -> str:
    """One line about all flights."""
    total = results.total
    average = mean(total["delay"])
    known = sum(sample[0] for sample in total["models"].values())
    departed = total["flights"] - total["cancelled"]
    return (
        f"{total['flights']:,} flights, {total['cancelled']:,} cancelled, mean delay {_minutes(average)} min; "
        f"model known for {known:,} of {departed:,}"
    )


def _cells(row: Row, names: dict[str, str]) -> list[str]:
    delays = row.delays
    sample = delays["delay"]
    slowest = row.slowest_model
    return [
        names.get(row.carrier, row.carrier).removesuffix(" Inc.").removesuffix(" Co."),
        f"{row.hour:02}",
        f"{delays['flights']:,}",
        f"{delays['cancelled']:,}",
        _minutes(mean(sample)),
        str(sample[2]) if sample else "-",
        f"{slowest[0]} ({slowest[1]:.1f})" if slowest else "-",
    ]


def _minutes(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    try:
        results = read_results(job_from_arguments("-m samzapy.examples.flights.table", arguments))
    except SamzapyError as failure:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
        return failure.exit_code
    console = Console()
    console.print(results_table(results, airlines()))
    console.print(totals_line(results), soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
