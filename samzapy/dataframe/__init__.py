"""State as Spark DataFrames: `read_store`, and the way back, `write_store`.

Beside the runner, which carries containers into Spark: here a program that has a SparkSession looks into the stores of
a job, or fills them before the job's first start. Of samzapy only `samzapy.runner.spark` and this package import
pyspark.
"""

from samzapy.dataframe.reading import read_store
from samzapy.dataframe.writing import StoreWritten, write_store

__all__ = ["StoreWritten", "read_store", "write_store"]
