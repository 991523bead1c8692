"""What an operator does to a job: look at its positions and stores, move it, take it over, drain it, adopt its records.

Functions that take a checked job and return values. They know neither the command line nor Spark: `samzapy.cli` shows
what they return, `samzapy.runner` starts jobs with them.
"""
