"""`samzapy drain`: end a running job after it has processed everything that its inputs hold."""

from __future__ import annotations

from pathlib import Path

import click

from samzapy.cli.options import JOB, OVERRIDES, pairs


@click.command()
@JOB
@OVERRIDES
@click.option("--no-wait", is_flag=True, help="Do not wait for the end.")
@click.option(
    "--timeout", type=click.FloatRange(0), default=600.0, show_default=True, help="Seconds to wait for the end."
)
def drain(job: Path, overrides: tuple[str, ...], *, no_wait: bool, timeout: float) -> None:
    """Let a running job process its inputs up to their present end, call on_drain of its tasks, commit and stop.

    The job may run anywhere that uses the same checkpoints; its driver looks for the request three times a lease.
    """
    from threading import Event

    from samzapy.admin.running import ask_to_drain, describe_run, look_for_run, wait_for_end
    from samzapy.config.loader import load_job
    from samzapy.errors import EnvironmentFailure

    config = load_job(job, pairs(overrides))
    run = ask_to_drain(config)
    click.echo(f"asked {describe_run(run)} to drain", err=True)
    if no_wait:
        return
    if look_for_run(config, run).unseen:
        click.echo("it runs on another machine, so its end cannot be waited for", err=True)
        return
    if not wait_for_end(config, run, timeout, Event().wait):
        raise EnvironmentFailure(
            f"job {config.name} (id {config.id}): not drained within {timeout:g} s; it is still draining"
        )
    click.echo("drained")
