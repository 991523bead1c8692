"""`samzapy verify`: prove a delivery guarantee in the environment where the job will run."""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, final

import click
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from samzapy.cli.options import Number, look_at_target, pairs
from samzapy.cli.output import QuietProgress, json_text, line_on, status_console, table
from samzapy.config.reading.properties import Masked
from samzapy.config.task import Guarantee
from samzapy.devkafka import DevBroker
from samzapy.errors import SamzapyError
from samzapy.verify.campaign import COLUMNS, Plan, Row, by_guarantee, cells, plans, remarks, soak
from samzapy.verify.scenario import Listener, Scenario
from samzapy.verify.target import CONTAINERS, PARTITIONS, Target
from samzapy.verify.workload import TASKS

_NAME = ("samzapy", "verify")
_MOST_SEEDS = 1_000_000
#: A reference to an environment variable is no secret itself, even for a secret key.
_VARIABLE = re.compile(r"\$\{env:[^}]*\}")


@dataclass(frozen=True)
class Verification:
    """The options of the command."""

    guarantees: tuple[str, ...]
    events: int
    kills: int
    system: str
    bootstrap: str | None
    master: str
    containers: int
    partitions: int
    scenarios: tuple[str, ...]
    seed: int | None
    soak: float | None
    task: str
    overrides: tuple[str, ...]
    folder: Path | None
    as_json: Path | None

    def run(self) -> int:
        """Run the scenarios and print their results; returns the exit code."""
        seed = secrets.randbelow(_MOST_SEEDS) if self.seed is None else self.seed
        # Another process's broker and files may be in the given folder.
        place = self.folder or Path(tempfile.gettempdir())
        folder = (place / f"samzapy-verify-{secrets.token_hex(4)}").absolute()
        wanted = self._wanted(folder)
        scenarios = self._scenarios(wanted)
        look_at_target(self.as_json)
        click.echo(f"seed {seed}; again with: {self._command(seed)}", err=True)
        for line in wanted.limits():
            click.echo(f"note: {line}", err=True)
        folder.mkdir(mode=0o700, parents=True)
        rows: list[Row] = []
        with _terminated_in_order(), _started(wanted, folder) as target, _Display() as display:
            for number, plan in enumerate(self._plans(scenarios, seed), 1):
                display.begin(plan)
                own = folder / f"{number:03d}-{plan.scenario}-{plan.guarantee.value}"
                rows.append(Scenario(plan, target, own, display).run())
                display.end(rows[-1])
                self._write(rows)
        self._print(rows)
        if not all(row.kept for row in rows):
            click.echo(
                f"logs and local state of the failed scenarios are in {folder}; their streams are kept", err=True
            )
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        return 0

    def _write(self, rows: Sequence[Row]) -> None:
        """Write the rows so far: a long run may be interrupted."""
        if self.as_json is not None:
            self.as_json.write_text("".join(json_text(row.to_json()) + "\n" for row in rows))

    def _wanted(self, folder: Path) -> Target:
        """The target, not started yet. Raises click's error, ConfigError."""
        if self.bootstrap is not None and self.system != "kafka":
            raise click.UsageError("--bootstrap is for --system kafka")
        own = self.system == "kafka" and self.bootstrap is None
        broker = DevBroker(folder / "kafka", tied=True) if own else None
        size = (self.partitions, self.containers)
        target = Target(self.system, self.master, self.bootstrap, broker, self._keys(), *size)
        target.check()
        return target

    def _scenarios(self, target: Target) -> tuple[str, ...]:
        unknown = [name for name in self.scenarios if name not in target.scenarios]
        if unknown:
            allowed = ", ".join(target.scenarios)
            raise click.BadParameter(f"{unknown[0]!r} is not possible here; one of {allowed}", param_hint="--scenario")
        return self.scenarios or target.scenarios

    def _plans(self, scenarios: Sequence[str], seed: int) -> Iterator[Plan]:
        chosen = [Guarantee(name) for name in self.guarantees]
        if self.soak is not None:
            yield from soak(chosen or list(Guarantee), scenarios, self.soak, seed)
            return
        for guarantee in chosen or [Guarantee.EXACTLY_ONCE]:
            yield from plans(guarantee, self.events, self.kills, scenarios, seed)

    def _command(self, seed: int) -> str:
        named = {"guarantee": self.guarantees, "scenario": self.scenarios}
        parts = [part for name, values in named.items() for value in values for part in (f"--{name}", value)]
        amount = ["--events", str(self.events), "--kills", str(self.kills)]
        parts += amount if self.soak is None else ["--soak", f"{self.soak:g}"]
        return shlex.join([*_NAME, *parts, "--seed", str(seed), *self._where()])

    def _keys(self) -> dict[str, str]:
        """The keys that the command line adds to the verified job."""
        chosen = {"task.class": TASKS[self.task]} if self.task != "message" else {}
        return {**chosen, **pairs(self.overrides)}

    def _where(self) -> list[str]:
        """The options that say where to run."""
        where = ["--system", self.system, "--master", self.master]
        where += ["--bootstrap", self.bootstrap] if self.bootstrap is not None else []
        for name, count, usual in (
            ("containers", self.containers, CONTAINERS),
            ("partitions", self.partitions, PARTITIONS),
        ):
            where += [f"--{name}", str(count)] if count != usual else []
        where += ["--task", self.task] if self.task != "message" else []
        return [*where, *(part for pair in self._shown_keys() for part in ("--config", pair))]

    def _shown_keys(self) -> Iterator[str]:
        """The overrides for the printed command, with secrets masked, because a CI system keeps the output."""
        given = Masked(pairs(self.overrides))
        for key, masked in given.shown().items():
            yield f"{key}={given[key] if _VARIABLE.fullmatch(given[key]) else masked}"

    def _print(self, rows: Sequence[Row]) -> None:
        if self.soak is not None:
            lines = [*by_guarantee(rows), cells(rows)]
            table(f"{len(rows)} rounds", ("guarantee (rounds)", *COLUMNS[1:]), lines)
        else:
            for guarantee in dict.fromkeys(row.plan.guarantee for row in rows):
                own = [row for row in rows if row.plan.guarantee is guarantee]
                lines = [*(cells([row], row.plan.scenario) for row in own), cells(own)]
                table(f"{guarantee.value} on {self.system}", COLUMNS, lines)
        for line in remarks(rows):
            click.echo(line)
        for row in rows:
            if not row.kept:
                click.echo(f"{row.plan}, again: {shlex.join([*_NAME, *row.plan.options, *self._where()])}")


@final
class _Display(Listener):
    """Shows the current scenario on standard error: a bar on a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self._console = status_console()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        shown = self._console.is_terminal
        self._progress = QuietProgress(
            *columns, TimeElapsedColumn(), console=self._console, transient=True, disable=not shown
        )
        self._bar = self._progress.add_task("starting")

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def begin(self, plan: Plan) -> None:
        """A scenario starts."""
        self._progress.reset(self._bar, total=plan.events, description=str(plan))

    def written(self, plan: Plan, events: int) -> None:
        """Move the bar."""
        self._progress.update(self._bar, completed=events)

    def happened(self, plan: Plan, line: str) -> None:
        """Show the line beside the bar, or print it."""
        self._progress.update(self._bar, description=f"{plan}: {line}")
        if not self._console.is_terminal:
            line_on(self._console, f"{plan}: {line}")

    def end(self, row: Row) -> None:
        """A scenario has ended."""
        line_on(self._console, f"{row.plan}: {'kept' if row.kept else 'BROKEN'} in {row.seconds:.0f} s")


@contextmanager
def _started(target: Target, folder: Path) -> Iterator[Target]:
    """Start the target's own broker, if it has one, and stop it in the end. Its data stay."""
    try:
        if target.broker is None:
            yield target
            return
        try:
            yield replace(target, bootstrap=target.broker.start())
        finally:
            target.broker.stop()
    except SamzapyError:
        click.echo(f"logs are in {folder}", err=True)
        raise


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM ends the job and the broker in order, as Ctrl-C does."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


_GUARANTEES = ("at-most-once", "at-least-once", "effectively-once", "exactly-once")


@click.command()
@click.option(
    "--guarantee", "-g", "guarantees", multiple=True, type=click.Choice(_GUARANTEES), help="The guarantee; repeatable."
)
@click.option(
    "--events",
    type=click.IntRange(100),
    default=200_000,
    show_default=True,
    help="The number of events, in all scenarios.",
)
@click.option(
    "--kills", type=click.IntRange(1), default=20, show_default=True, help="The number of faults, in all scenarios."
)
@click.option("--system", type=click.Choice(["kafka", "local"]), default="kafka", show_default=True, help="The system.")
@click.option(
    "--bootstrap", metavar="HOST:PORT", help="A running Kafka, which the command does not restart. Default: start one."
)
@click.option("--master", metavar="URL", default="local-cluster[2,1,1024]", show_default=True, help="Spark's master.")
@click.option(
    "--containers",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="The number of containers, limited by the slots.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="The number of partitions of the input, and so of tasks.",
)
@click.option(
    "--scenario", "scenarios", multiple=True, metavar="NAME", help="Only these scenarios; default: all possible ones."
)
@click.option("--seed", type=click.IntRange(0), help="The seed of events, faults and their times; default: a new one.")
@click.option("--soak", type=Number(1), metavar="SECONDS", help="Run random scenarios for this time.")
@click.option(
    "--task", type=click.Choice(["message", "batch"]), default="message", show_default=True, help="The kind of task."
)
@click.option("--config", "-c", "overrides", multiple=True, metavar="KEY=VALUE", help="Add a key to the job file.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the command makes its folder of logs and state; default: among temporary files.",
)
@click.option(
    "--json", "as_json", type=click.Path(path_type=Path, dir_okay=False), help="Also write the rows to this file."
)
def verify(**given: Any) -> None:
    """Run a job with known results, kill, pause and disconnect it meanwhile, and check its results.

    Scenarios: worker, executor, driver (SIGKILL), zombie (SIGSTOP past the lease, then SIGCONT), overlap (a second run
    with other containers, while the first one continues or is stopped), upgrade (a second run takes over from the
    first, which commits and lets go), foreign-writer (a record of another writer in a changelog, which the job must
    refuse), broker-restart and broker-kill (only for a broker that this command has started), and mixed: all of them.
    The command touches only its own processes and streams. On a remote master these are the driver and the changelogs.

    Independent checkers compare outputs, stores, changelogs and offsets with the table of guarantees. Exit code 1
    means a broken promise, and the command then keeps the logs. The default of --guarantee is exactly-once; a soak
    draws from all four.
    """
    click.get_current_context().exit(Verification(**given).run())
