"""Runs the demo, jobs and tests in environments of other versions of Python, Spark and Kafka: `python -m tests.matrix`.

Each environment is made from the wheel of this tree in a temporary folder, and is gone afterwards. A cell that cannot
be made on this machine says why.
"""
