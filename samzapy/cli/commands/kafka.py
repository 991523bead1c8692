"""`samzapy kafka`: start and stop the development broker."""

from __future__ import annotations

from pathlib import Path

import click

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".samzapy/kafka"),
    show_default=True,
    help="The folder of the broker's data and log.",
)


@click.group()
def kafka() -> None:
    """Start and stop a real Kafka on this machine, for development: one node, loopback only.

    The command downloads its jars from Maven Central, and verifies them before they run.
    """


@kafka.command()
@_folder
@click.option("--port", type=click.IntRange(1, 65535), default=9092, show_default=True, help="The port on 127.0.0.1.")
@click.option(
    "--version",
    envvar="SAMZAPY_KAFKA_VERSION",
    help="Kafka's version, 4.1.0 by default: 3.9, 4.0, 4.1, 4.4, or one in full. Data of a newer version are not for an older one.",
)
def start(folder: Path, port: int, version: str | None) -> None:
    """Start the broker, unless it is already running, and print its address."""
    from samzapy.devkafka import start as start_broker

    click.echo(f"Kafka answers at {start_broker(folder, port, version)}; its data and log are in {folder}")


@kafka.command()
@_folder
def stop(folder: Path) -> None:
    """Stop the broker. Its data stays."""
    from samzapy.devkafka import stop as stop_broker

    click.echo("stopped" if stop_broker(folder) else f"no broker runs in {folder}")


@kafka.command()
@_folder
@click.pass_context
def status(ctx: click.Context, folder: Path) -> None:
    """Print the broker's address. The exit code is 3 if the broker does not run."""
    from samzapy.devkafka import status as status_of_broker

    running = status_of_broker(folder)
    if running is None:
        click.echo(f"no broker runs in {folder}")
        ctx.exit(3)
    kafka_version = f"Kafka {running.version}".strip()
    click.echo(f"{kafka_version} answers at {running.bootstrap} (process {running.pid})")
