"""Finds a runner by its name, and imports Spark only for the runner that needs it."""

from __future__ import annotations

from samzapy.errors import EnvironmentFailure
from samzapy.runner.base import Runner
from samzapy.runner.local import LocalRunner


def runner_of(name: str) -> Runner:
    """`spark` or `local`. Raises EnvironmentFailure without pyspark, ValueError for other names."""
    if name == "local":
        return LocalRunner()
    if name != "spark":
        raise ValueError(f"runner: spark or local, got {name!r}")
    try:
        from samzapy.runner.spark.runner import SparkRunner  # noqa: PLC0415  # pyspark takes its time
    except ImportError as cause:
        raise EnvironmentFailure(f"Spark cannot be imported ({cause}): install pyspark") from cause
    return SparkRunner()
