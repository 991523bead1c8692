"""What `samzapy verify` does with its options: target, scenarios, progress, table."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from samzapy.cli.output import table
from samzapy.cli.pairs import pairs
from samzapy.config.guarantee import Guarantee
from samzapy.devkafka import DevBroker
from samzapy.verify.campaign import Campaign, plans, soak
from samzapy.verify.report import COLUMNS, by_guarantee, cells, remarks, totals
from samzapy.verify.scenario import Plan, Row
from samzapy.verify.scenario import Progress as Step
from samzapy.verify.target import Target

_MOST_SEEDS = 1_000_000


@dataclass(frozen=True)
class Verification:
    """The options of the command."""

    guarantees: tuple[str, ...]
    events: int
    kills: int
    system: str
    bootstrap: str | None
    master: str
    scenarios: tuple[str, ...]
    seed: int | None
    soak: float | None
    overrides: tuple[str, ...]
    folder: Path | None
    as_json: Path | None

    def run(self) -> int:
        """Run the scenarios and print what came of them; the exit code."""
        seed = secrets.randbelow(_MOST_SEEDS) if self.seed is None else self.seed
        self._check()
        with _terminated_in_order(), self._target() as (target, folder), _Display() as display:
            scenarios = self._scenarios(target)
            click.echo(f"seed {seed}; again with: {self._command(seed)}", err=True)
            for line in target.limits():
                click.echo(f"note: {line}", err=True)
            campaign = Campaign(target, folder, display.step)
            rows = []
            for plan in self._plans(scenarios, seed):
                display.begin(plan)
                rows.append(campaign.run(plan))
                display.end(rows[-1])
        self._print(rows)
        if self.as_json is not None:
            self.as_json.write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))
        broken = not all(row.kept for row in rows)
        if broken:
            click.echo(f"logs and state of the broken ones are in {folder}", err=True)
        elif self.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
        return int(broken)

    def _check(self) -> None:
        if self.bootstrap is not None and self.system != "kafka":
            raise click.UsageError("--bootstrap is for --system kafka")
        Target(self.system, self.master, overrides=pairs(self.overrides)).check()

    @contextmanager
    def _target(self) -> Iterator[tuple[Target, Path]]:
        """The system, started if it has to be, and a folder for the scenarios."""
        folder = self.folder or Path(tempfile.mkdtemp(prefix="samzapy-verify-"))
        folder = folder.absolute()
        overrides = pairs(self.overrides)
        if self.system == "local" or self.bootstrap is not None:
            yield Target(self.system, self.master, self.bootstrap, overrides=overrides), folder
            return
        broker = DevBroker(folder / "kafka", tied=True)
        target = Target(self.system, self.master, "127.0.0.1", broker, overrides)
        target.check()
        try:
            yield Target(self.system, self.master, broker.start(), broker, overrides), folder
        finally:
            broker.stop()

    def _scenarios(self, target: Target) -> tuple[str, ...]:
        unknown = [name for name in self.scenarios if name not in target.scenarios]
        if unknown:
            allowed = ", ".join(target.scenarios)
            raise click.BadParameter(f"{unknown[0]!r} cannot be had here; one of {allowed}", param_hint="--scenario")
        return self.scenarios or target.scenarios

    def _plans(self, scenarios: Sequence[str], seed: int) -> Iterator[Plan]:
        chosen = [Guarantee(name) for name in self.guarantees]
        if self.soak is not None:
            yield from soak(chosen or list(Guarantee), scenarios, self.soak, seed)
            return
        for guarantee in chosen or [Guarantee.EXACTLY_ONCE]:
            yield from plans(guarantee, self.events, self.kills, scenarios, seed)

    def _command(self, seed: int) -> str:
        parts = ["samzapy", "verify"]
        for name, values in (
            ("guarantee", self.guarantees),
            ("scenario", self.scenarios),
            ("bootstrap", (self.bootstrap,)),
            ("config", self.overrides),
            ("soak", (None if self.soak is None else f"{self.soak:g}",)),
        ):
            parts += [part for value in values if value is not None for part in (f"--{name}", value)]
        if self.soak is None:
            parts += ["--events", str(self.events), "--kills", str(self.kills)]
        return shlex.join([*parts, "--system", self.system, "--master", self.master, "--seed", str(seed)])

    def _print(self, rows: Sequence[Row]) -> None:
        if self.soak is not None:
            lines = [*by_guarantee(rows), totals(rows)]
            table(f"{len(rows)} rounds", ("guarantee (rounds)", *COLUMNS[1:]), lines)
        else:
            for guarantee in dict.fromkeys(row.plan.guarantee for row in rows):
                own = [row for row in rows if row.plan.guarantee is guarantee]
                table(f"{guarantee.value} on {self.system}", COLUMNS, [*map(cells, own), totals(own)])
        for line in remarks(rows):
            click.echo(line)


@final
class _Display:
    """A bar for the scenario at hand on a terminal, lines elsewhere; on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        shown = self._console.is_terminal
        self._progress = Progress(
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
        self._progress.reset(self._bar, total=plan.events, description=_title(plan))

    def step(self, step: Step) -> None:
        """A scenario goes on."""
        self._progress.update(self._bar, completed=step.written)
        told = f"{_title(step.plan)}: {step.line} ({step.written:,} of {step.plan.events:,} events)"
        if not self._console.is_terminal or "recovered" in step.line:
            self._print(told)

    def end(self, row: Row) -> None:
        """A scenario has ended."""
        self._print(f"{_title(row.plan)}: {'kept' if row.kept else 'BROKEN'} in {row.seconds:.0f} s")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _title(plan: Plan) -> str:
    return f"{plan.guarantee.value} {plan.scenario}"


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """SIGTERM ends the job and the broker, too, as Ctrl-C does."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
