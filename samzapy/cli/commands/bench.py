"""`samzapy bench`: measure jobs and stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from rich.console import Console

from samzapy.cli.options import JOB, OVERRIDES, Number, job_file, look_at_target, pairs
from samzapy.cli.output import json_text, table, warn
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, ConfigProblem, SamzapyError


class _Percent(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share that `10%` or `10` means."""
        try:
            share = float(str(value).removesuffix("%")) / 100
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"expected a percentage such as 10%, got {value!r}", param, ctx)
        return share


class MediansGotWorse(SamzapyError):
    """Raised when a case is slower than its baseline by more than the allowed share."""


@click.group()
def bench() -> None:
    """Measure stores, and jobs in a separate process: throughput, CPU and memory."""


@bench.command()
@JOB
@OVERRIDES
@click.option("--runner", type=click.Choice(["local", "spark"]), default="local", show_default=True, help="The runner.")
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="The number of runs, one after the other.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the measurements as JSON.")
def job(job: Path, overrides: tuple[str, ...], runner: str, repeat: int, as_json: bool) -> None:
    """Run a job over its inputs up to their current ends, and report throughput, CPU and memory.

    A run starts at the last commit of its job. So with --repeat each run gets a new job.id derived from the configured
    one, with its own checkpoints, state and changelogs, and reads everything. These stay after the run.
    """
    from samzapy.bench.measuring import MeasurementFailed, measure_job
    from samzapy.bench.report import job_table
    from samzapy.config.loader import load_job

    given = pairs(overrides)
    config = load_job(job, given)
    # Another call must not reuse these job ids.
    call = uuid4().hex[:8]
    runs = [given] if repeat == 1 else [{**given, **_own(config, f"{call}-{n}")} for n in range(1, repeat + 1)]
    measured = []
    for item in runs:
        measured.append(measure_job(job, item, runner, timeout_s=None))
        if not measured[-1].messages:
            raise MeasurementFailed(
                f"{job}: no message was processed: its inputs are empty, or the job begins at their ends, because of "
                "its last commit (with --repeat 2 each run reads everything) or of samza.offset.default=upcoming"
            )
    if as_json:
        click.echo(json_text([item.to_json() for item in measured]))
    else:
        Console().print(job_table(f"{config.name} ({runner})", measured))


def _own(config: JobConfig, run: str) -> dict[str, str]:
    """The keys that make a run a separate job: a changelog belongs to one job."""
    logged = {store.name: store.changelog for store in config.stores.values() if store.changelog is not None}
    changelogs = {f"stores.{name}.changelog": f"{stream}-{run}" for name, stream in logged.items()}
    return {"job.id": f"{config.id}-{run}", **changelogs}


@bench.command()
@job_file
@click.option("--count", type=click.IntRange(1), default=1_000_000, show_default=True, help="Events to write.")
@click.option("--keys", type=click.IntRange(1), default=100_000, show_default=True, help="The number of users.")
@click.option("--exponent", type=float, default=1.1, show_default=True, help="The exponent of Zipf's law.")
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed gives the same events.")
@click.option("--partitions", type=click.IntRange(1), default=4, show_default=True, help="Partitions of a new stream.")
def events(config: JobConfig, count: int, keys: int, exponent: float, seed: int, partitions: int) -> None:
    """Write JSON events of about 100 bytes, keyed by user, to the first input of a job."""
    from samzapy.bench.events import Events, load_events

    if not config.task.inputs:
        given = ", ".join(map(str, config.task.patterns))
        allowed = "must name a stream for the events, not only regular expressions: add -c task.inputs=SYSTEM.STREAM"
        raise ConfigError([ConfigProblem("task.inputs", given, allowed)])
    stream = config.task.inputs[0]
    built = Events(count, keys, exponent, seed)
    written = load_events(config.systems[stream.system], stream, built, partitions=partitions)
    click.echo(f"{written:,} events written to {stream}")


@bench.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.properties")
@click.option("--config", "-c", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key of the file.")
@click.option("--only", multiple=True, metavar="TEST", help="Only this test; repeatable.")
@click.option(
    "--scale",
    type=Number(0, 1000, min_open=True),
    default=1.0,
    show_default=True,
    help="Factor for all counts.",
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Write every figure to this file."
)
@click.option(
    "--compare",
    "baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare with this earlier file of --json.",
)
@click.option(
    "--fail-on", type=_Percent(), default="10%", show_default=True, help="Exit 1 if a median is worse by more."
)
def store(
    file: Path,
    overrides: tuple[str, ...],
    only: tuple[str, ...],
    scale: float,
    json_file: Path | None,
    baseline: Path | None,
    fail_on: float,
) -> None:
    """Measure stores: the scenarios of a file.

    The sets of one test run in turns, so that other load on the machine falls on all of them alike.
    """
    from samzapy.bench.plan import read_plan
    from samzapy.bench.report import (
        CASE_COLUMNS,
        case_rows,
        document,
        only_tests,
        read_results,
    )
    from samzapy.bench.stores import run_plan

    plan = read_plan(file, pairs(overrides)).only(only)
    before = only_tests(read_results(baseline), only) if baseline else None
    look_at_target(json_file)
    results = run_plan(plan, scale=scale, on_progress=_say)
    table(f"{file.name}: medians of {plan.repeats} repeats", CASE_COLUMNS, case_rows(results))
    written = document(file.name, plan, scale, results)
    if json_file:
        json_file.write_text(json_text(written, indent=1) + "\n", encoding="utf-8")
    if before is not None:
        _compared(before, written, fail_on)


def _say(name: str, repeat: int, repeats: int) -> None:
    click.echo(f"{name}: {f'repeat {repeat} of {repeats}' if repeat else 'preparing'}", err=True)


def _compared(before: dict[str, Any], now: dict[str, Any], fail_on: float) -> None:
    from samzapy.bench.report import COMPARISON_COLUMNS, compare, comparison_rows

    result = compare(before, now, fail_on)
    if before.get("machine", {}).get("processor") != now["machine"]["processor"]:
        warn("the baseline was measured on another processor")
    table("Against the baseline", COMPARISON_COLUMNS, comparison_rows(result))
    worse = [item.name for item in result if item.worse]
    if worse:
        raise MediansGotWorse(f"slower than the baseline by more than {fail_on:.0%}: {', '.join(worse)}")
