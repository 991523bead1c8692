"""`samzapy verify`: prove a delivery guarantee in the environment where the job will run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samzapy.cli.options import Number

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
    from samzapy.cli.verification import Verification

    click.get_current_context().exit(Verification(**given).run())
