"""`samzapy metrics`: what Grafana and Prometheus need to show a job and to watch it."""

from __future__ import annotations

import json

import click


@click.group()
def metrics() -> None:
    """A Grafana dashboard and alert rules for a job's metrics."""


@metrics.command()
def dashboard() -> None:
    """Print a Grafana dashboard as JSON, to be imported there."""
    from samzapy.metrics.dashboard import dashboard as made

    click.echo(json.dumps(made(), indent=1))


@metrics.command()
def rules() -> None:
    """Print alert rules as YAML, for the `rule_files` of Prometheus."""
    from samzapy.metrics.dashboard import rules as written

    click.echo(written(), nl=False)
