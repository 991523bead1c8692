"""Runs containers in the executors of a Spark.

`runner.SparkRunner` is the driver's side, `worker.run_container` the executors'; they import little of each other,
because every attempt starts a new worker.
"""
