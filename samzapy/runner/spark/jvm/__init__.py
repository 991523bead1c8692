"""The JVM of a Spark driver, and the archive of classes that makes its start faster."""

from samzapy.runner.spark.jvm.process import DriverJvm
from samzapy.runner.spark.jvm.recording import archive_options, record_beside

__all__ = ["DriverJvm", "archive_options", "record_beside"]
