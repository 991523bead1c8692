"""The JVM of a Spark driver."""

from samzapy.runner.spark.jvm.process import DriverJvm

__all__ = ["DriverJvm"]
