"""Reads stores as Spark DataFrames (`read_store`), and writes DataFrames as stores (`write_store`).

A program with a SparkSession reads the stores of a job, or fills them before the job's first start. Only this package
and `samzapy.runner.spark`, which runs containers on Spark, import pyspark.
"""

from samzapy.dataframe.reading import read_store
from samzapy.dataframe.writing import StoreWritten, write_store

__all__ = ["StoreWritten", "read_store", "write_store"]
