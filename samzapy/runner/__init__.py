"""Runs the containers of a job, in this process or in the executors of a Spark."""
