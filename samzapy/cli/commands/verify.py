"""`samzapy verify`: prove a delivery guarantee in the environment where the job will run."""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import click

from samzapy.cli.output import FILE, OVERRIDES, Number, check_writable, json_text, pairs, table
from samzapy.config.reading.properties import Masked
from samzapy.config.task import Guarantee
from samzapy.devkafka import DevBroker
from samzapy.errors import SamzapyError
from samzapy.verify.campaign import COLUMNS, Plan, Row, by_guarantee, cells, plans, remarks, soak
from samzapy.verify.scenario import Scenario
from samzapy.verify.target import CONTAINERS, PARTITIONS, Target
from samzapy.verify.workload import TASKS

_MOST_SEEDS = 1_000_000
#: A reference to an environment variable is no secret itself, even for a secret key.
_VARIABLE = re.compile(r"\$\{env:[^}]*\}")


@dataclass(frozen=True, kw_only=True)
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
        check_writable(self.as_json)
        click.echo(f"seed {seed}; again with: {self._command(seed=seed)}", err=True)
        for line in wanted.limits():
            click.echo(f"note: {line}", err=True)
        folder.mkdir(mode=0o700, parents=True)
        rows: list[Row] = []
        with _terminated_in_order(), _started(wanted, folder) as target:
            for number, plan in enumerate(self._plans(scenarios, seed), 1):
                _say(plan, f"{plan.events:,} events, {plan.faults:,} faults")
                own = folder / f"{number:03d}-{plan.scenario}-{plan.guarantee.value}"
                rows.append(Scenario(plan, target, own, partial(_say, plan)).run())
                _say(plan, f"{'kept' if rows[-1].kept else 'BROKEN'} in {rows[-1].seconds:.0f} s")
                if self.as_json is not None:
                    # A long run may be interrupted.
                    self.as_json.write_text("".join(json_text(row.to_json()) + "\n" for row in rows))
        self._print(rows)
        if not all(row.kept for row in rows):
            click.echo(
                f"logs and local state of the failed scenarios are in {folder}; their streams are kept", err=True
            )
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        return 0

    def _wanted(self, folder: Path) -> Target:
        """The target, not started yet. Raises click's error, ConfigError."""
        if self.bootstrap is not None and self.system != "kafka":
            raise click.UsageError("--bootstrap is for --system kafka")
        if self.task == "pipeline" and (self.soak is not None or set(self.guarantees) - {Guarantee.EXACTLY_ONCE.value}):
            raise click.UsageError("--task pipeline has two stages: only exactly-once keeps state and outputs exact")
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

    def _command(self, **changed: Any) -> str:
        """The command line that repeats this one, with these options changed, and secrets masked: a CI system keeps the
        output."""
        values = {**vars(self), "overrides": tuple(self._shown_keys()), **changed}
        parts = []
        for option in verify.params:
            value = values[str(option.name)]
            if value is not None and value != option.default:
                given = value if isinstance(value, tuple) else (value,)
                parts += [part for item in given for part in (option.opts[0], str(item))]
        return shlex.join(["samzapy", "verify", *parts])

    def _keys(self) -> dict[str, str]:
        """The keys that the command line adds to the verified job."""
        chosen = {"task.class": TASKS[self.task]} if self.task != "message" else {}
        return {**chosen, **pairs(self.overrides)}

    def _shown_keys(self) -> Iterator[str]:
        """The overrides for the printed command."""
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
                plan = row.plan
                named = {"guarantees": (plan.guarantee.value,), "scenarios": (plan.scenario,), "soak": None}
                again = self._command(**named, events=plan.events, kills=plan.faults, seed=plan.seed)
                click.echo(f"{plan}, again: {again}")


def _say(plan: Plan, line: str) -> None:
    click.echo(f"{plan}: {line}", err=True)


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


def _count(name: str, least: int, default: int, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(name, type=click.IntRange(least), default=default, show_default=True, help=text)


@click.command()
@click.option("--guarantee", "-g", "guarantees", multiple=True, type=click.Choice(_GUARANTEES), help="Repeatable.")
@_count("--events", 100, 200_000, "The number of events, in all scenarios.")
@_count("--kills", 1, 20, "The number of faults, in all scenarios.")
@click.option("--system", type=click.Choice(["kafka", "local"]), default="kafka", show_default=True, help="The system.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A running Kafka, which is not restarted. Default: start one.")
@click.option("--master", metavar="URL", default="local-cluster[2,1,1024]", show_default=True, help="Spark's master.")
@_count("--containers", 1, CONTAINERS, "The number of containers, limited by the slots.")
@_count("--partitions", 1, PARTITIONS, "The number of partitions of the input, and so of tasks.")
@click.option("--scenario", "scenarios", multiple=True, metavar="NAME", help="Repeatable; default: all possible ones.")
@click.option("--seed", type=click.IntRange(0), help="The seed of events, faults and their times; default: a new one.")
@click.option("--soak", type=Number(1), metavar="SECONDS", help="Run random scenarios for this time.")
@click.option("--task", type=click.Choice(list(TASKS)), default="message", show_default=True, help="Its kind.")
@OVERRIDES
@click.option("--folder", type=FILE, help="The parent of the folder of logs and state; default: temporary files.")
@click.option("--json", "as_json", type=FILE, help="Also write the rows to this file.")
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
