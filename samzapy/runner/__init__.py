"""Carries containers to where they run: this process, or the executors of a Spark."""
