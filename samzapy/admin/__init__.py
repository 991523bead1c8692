"""The operator's tools: show the positions and stores of a job, move it, take it over, drain it, adopt foreign records.

Functions take a checked job and return values. They know neither the command line nor Spark: `samzapy.cli` shows their
results, `samzapy.runner` and `samzapy.dataframe` use them at a start.
"""
