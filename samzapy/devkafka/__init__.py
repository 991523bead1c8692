"""A real Kafka for development, without containers: its jars from Maven Central, run by the Java that Spark needs.

`start`, `stop` and `status` are what `samzapy kafka` calls; tests and benchmarks use `DevBroker`.
"""

from __future__ import annotations

from pathlib import Path

from samzapy.devkafka.broker import DevBroker, Listener, RunningBroker

__all__ = ["DEFAULT_FOLDER", "DEFAULT_PORT", "DevBroker", "Listener", "RunningBroker", "start", "status", "stop"]

DEFAULT_FOLDER = Path(".samzapy/kafka")
DEFAULT_PORT = 9092


def start(folder: Path = DEFAULT_FOLDER, port: int = DEFAULT_PORT) -> str:
    """Start the folder's broker unless it runs; returns its bootstrap string once it answers.

    Raises EnvironmentFailure without Java 17+, without the jars, or if the port is taken.
    """
    return DevBroker(folder, port).start()


def stop(folder: Path = DEFAULT_FOLDER) -> bool:
    """Stop the folder's broker; False if it did not run. The data stay."""
    return DevBroker(folder).stop()


def status(folder: Path = DEFAULT_FOLDER) -> RunningBroker | None:
    """The folder's running broker (pid, port, bootstrap); None if there is none."""
    return DevBroker(folder).running
