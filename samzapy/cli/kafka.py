"""`samzapy kafka`: the development broker."""

from __future__ import annotations

from pathlib import Path

import click

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".samzapy/kafka"),
    show_default=True,
    help="Where the broker keeps its data and its log.",
)


@click.group()
def kafka() -> None:
    """Start and stop a real Kafka on this machine, for development: one node, loopback only.

    Its jars come from Maven Central, through Spark's resolver, and are verified before they run.
    """


@kafka.command()
@_folder
@click.option("--port", type=click.IntRange(1, 65535), default=9092, show_default=True, help="The port on 127.0.0.1.")
def start(folder: Path, port: int) -> None:
    """Start the broker, unless it runs already; prints its address."""
    from samzapy import devkafka

    click.echo(devkafka.start(folder, port))


@kafka.command()
@_folder
def stop(folder: Path) -> None:
    """Stop the broker; its data stays."""
    from samzapy import devkafka

    devkafka.stop(folder)


@kafka.command()
@_folder
def status(folder: Path) -> None:
    """Say whether the broker runs, and where."""
    from samzapy import devkafka

    click.echo(devkafka.status(folder))
