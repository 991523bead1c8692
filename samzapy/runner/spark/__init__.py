"""Runs containers in the executors of a Spark; the only importer of pyspark."""

from samzapy.runner.spark.runner import SparkRunner

__all__ = ["SparkRunner"]
