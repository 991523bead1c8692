"""`samzapy kafka`: a development broker; `samzapy spark`: a development cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from samzapy.cli.output import JSON, table
from samzapy.devkafka.broker import BROKER_FOLDER, BROKER_PORT
from samzapy.errors import counted


def _folder(default: Path, of: str) -> Callable[[Any], Any]:
    """The option `--folder`."""
    kind = click.Path(path_type=Path, file_okay=False)
    return click.option("--folder", type=kind, default=default, show_default=True, help=f"The folder of {of}.")


_broker_folder = _folder(BROKER_FOLDER, "the broker's data and log")
_spark_folder = _folder(Path(".samzapy/spark"), "the cluster's logs and work")


@click.group()
def kafka() -> None:
    """Start and stop a real Kafka on this machine, for development: one node, loopback only.

    The command downloads its jars from Maven Central, and verifies them before they run.
    """


@kafka.command()
@_broker_folder
@click.option(
    "--port", type=click.IntRange(1, 65535), default=BROKER_PORT, show_default=True, help="The port on 127.0.0.1."
)
@click.option(
    "--version",
    envvar="SAMZAPY_KAFKA_VERSION",
    help="Kafka's version, 4.1.0 by default: 3.9, 4.0, 4.1, 4.4, or one in full. "
    "Data of a newer version are not for an older one.",
)
def start(folder: Path, port: int, version: str | None) -> None:
    """Start the broker, unless it is already running, and print its address."""
    from samzapy.devkafka import DevBroker

    click.echo(f"Kafka answers at {DevBroker(folder, port, version=version).start()}; its data and log are in {folder}")


@kafka.command()
@_broker_folder
def stop(folder: Path) -> None:
    """Stop the broker. Its data stays."""
    from samzapy.devkafka import DevBroker

    click.echo("stopped" if DevBroker(folder).stop() else f"no broker runs in {folder}")


@kafka.command()
@_broker_folder
@JSON
@click.pass_context
def status(ctx: click.Context, folder: Path) -> None:
    """Print the broker's address. The exit code is 3 if the broker does not run."""
    from samzapy.devkafka import DevBroker

    rows = [(item.bootstrap, item.pid, item.version) for item in [DevBroker(folder).running] if item is not None]
    table(f"Broker in {folder}", ("address", "pid", "version"), rows)
    ctx.exit(0 if rows else 3)


@click.group()
def spark() -> None:
    """Start and stop a standalone Spark on this machine, for development: loopback only, no password.

    The processes are those of the installed pyspark.
    """


@spark.command("start")
@_spark_folder
@click.option("--workers", type=click.IntRange(1, 100), default=2, show_default=True, help="The number of workers.")
@click.option("--cores", type=click.IntRange(1, 1000), default=1, show_default=True, help="The cores of each worker.")
@click.option("--port", type=click.IntRange(1, 65535), default=7077, show_default=True, help="The port on 127.0.0.1.")
def start_spark(folder: Path, workers: int, cores: int, port: int) -> None:
    """Start the master and those workers that do not run yet, and print the master's address."""
    from samzapy.runner.spark.standalone import StandaloneSpark

    cluster = StandaloneSpark(folder)
    address, running = cluster.start(workers, cores, port), counted(len(cluster.running()) - 1, "worker")
    click.echo(f"Spark answers at {address}, with {running}; logs are in {folder}")


@spark.command("stop")
@_spark_folder
def stop_spark(folder: Path) -> None:
    """Stop the workers and the master."""
    from samzapy.runner.spark.standalone import StandaloneSpark

    click.echo("stopped" if StandaloneSpark(folder).stop() else f"no Spark runs in {folder}")


@spark.command("status")
@_spark_folder
@JSON
@click.pass_context
def show_spark(ctx: click.Context, folder: Path) -> None:
    """Print the processes of the cluster. The exit code is 3 if no master runs."""
    from samzapy.runner.spark.standalone import HOST, MASTER, StandaloneSpark

    running = StandaloneSpark(folder).running()
    rows = [(name, item.cores or f"spark://{HOST}:{item.port}", item.pid) for name, item in running.items()]
    table(f"Spark in {folder}", ("process", "address or cores", "pid"), rows)
    ctx.exit(0 if MASTER in running else 3)


@spark.command()
@click.argument("name", metavar="WORKER")
@_spark_folder
def kill(name: str, folder: Path) -> None:
    """Kill WORKER, such as worker-1, with all that it runs, as the loss of its host. `start` brings it back."""
    from samzapy.runner.spark.standalone import StandaloneSpark

    StandaloneSpark(folder).kill(name)
    click.echo(f"killed {name}")
