"""Runs containers in Spark executors.

`runner.SparkRunner` is the driver's side, `worker.run_task` the executors' side. They share few imports, because every
attempt starts a new worker.
"""
