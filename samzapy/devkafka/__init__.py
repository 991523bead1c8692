"""A real Kafka for development, without containers: its jars from Maven Central, run by the Java that Spark needs.

`samzapy kafka` calls `start`, `stop` and `status`; tests and benchmarks use `DevBroker`.
"""

from __future__ import annotations

from pathlib import Path

from samzapy.devkafka.broker import DevBroker, RunningBroker
from samzapy.devkafka.runtime import Listener, kafka_versions

__all__ = [
    "DEFAULT_FOLDER",
    "DEFAULT_PORT",
    "DevBroker",
    "Listener",
    "RunningBroker",
    "kafka_versions",
    "start",
    "status",
    "stop",
]

DEFAULT_FOLDER = Path(".samzapy/kafka")
DEFAULT_PORT = 9092


def start(folder: Path = DEFAULT_FOLDER, port: int = DEFAULT_PORT, version: str | None = None) -> str:
    """Start the folder's broker unless it runs; returns its bootstrap string once it answers.

    `version`: Kafka's, one of `kafka_versions` or the beginning of one (`3.9`); None for SAMZAPY_KAFKA_VERSION or,
    without it, 4.1.0. Raises EnvironmentFailure without Java 17+, without the jars, or if the port is taken.
    """
    return DevBroker(folder, port, version=version).start()


def stop(folder: Path = DEFAULT_FOLDER) -> bool:
    """Stop the folder's broker; False if it did not run. The data stay."""
    return DevBroker(folder).stop()


def status(folder: Path = DEFAULT_FOLDER) -> RunningBroker | None:
    """The folder's running broker (pid, port, bootstrap, version); None if there is none."""
    return DevBroker(folder).running
