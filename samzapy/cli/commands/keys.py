"""`samzapy keys` and `samzapy metrics`: print lists and files that need no job."""

from __future__ import annotations

import click

from samzapy.cli.output import JSON, json_text, table


@click.command()
@JSON
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("--unsupported", "other", is_flag=True, help="List Samza's keys without effect here, with the reasons.")
def keys(words: tuple[str, ...], *, other: bool) -> None:
    """List the keys of job files with their defaults and meanings. With WORDs, list the keys that contain all of
    them."""
    from samzapy.config.known_keys import ALL_KEYS, texts, unsupported

    if other:
        matching = [row for row in unsupported() if all(word.lower() in " ".join(row).lower() for word in words)]
        table("Keys of Samza without a meaning here", ("key", "a job with it", "why"), matching)
        return
    about = texts()
    rows = [(key.name, key.default_text, key.kind.allowed, about[key.name]) for key in ALL_KEYS]
    rows = [row for row in rows if all(word.lower() in f"{row[0]} {row[3]}".lower() for word in words)]
    table("Keys of job files", ("key", "default", "value", "meaning"), rows)


@click.group()
def metrics() -> None:
    """A Grafana dashboard, alert rules and the token for a job's metrics."""


@metrics.command()
def dashboard() -> None:
    """Print a Grafana dashboard as JSON, for import into Grafana."""
    from samzapy.metrics.dashboard import dashboard as built

    click.echo(json_text(built(), indent=1))


@metrics.command()
def rules() -> None:
    """Print alert rules as YAML, for the `rule_files` of Prometheus."""
    from samzapy.metrics.dashboard import rules as written

    click.echo(written(), nl=False)


@metrics.command()
def token() -> None:
    """Print the token that reads, for runs with this SAMZAPY_TOKEN: the `authorization.credentials` of Prometheus."""
    from samzapy.coordinator.server import Tokens
    from samzapy.errors import EnvironmentFailure
    from samzapy.runner.base import TOKEN, given_token

    given = given_token()
    if not given:
        raise EnvironmentFailure(f"{TOKEN} is not set, so each run draws its own token: set it for the run and here")
    click.echo(Tokens(given).read)
