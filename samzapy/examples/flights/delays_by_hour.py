"""Reads the delays of the flights job as a DataFrame, and finds the hours of the day with the highest mean delay.

Run it after the first two commands of flights.properties. The job may be running:

    python delays_by_hour.py flights.properties
"""

from pyspark.sql import SparkSession

from samzapy.dataframe import read_store
from samzapy.examples.flights.load import job_from_arguments

#: The value of the store `delays`: counts, and [flights, sum of minutes, most minutes] of those that departed.
SCHEMA = "flights bigint, cancelled bigint, delay array<bigint>"

# A task's keys are its own: "AA 17" is in every task that saw such a flight.
QUERY = """
    SELECT split_part(key, ' ', 2) AS hour, sum(value.flights) AS flights, sum(value.cancelled) AS cancelled,
           round(sum(value.delay[1]) / sum(value.delay[0]), 1) AS mean_delay, max(value.delay[2]) AS longest
    FROM delays GROUP BY hour ORDER BY mean_delay DESC LIMIT 5
"""

if __name__ == "__main__":
    job = job_from_arguments("delays_by_hour.py")
    spark = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
    read_store(spark, job, "delays", SCHEMA).createOrReplaceTempView("delays")
    spark.sql(QUERY).show()
    spark.stop()
