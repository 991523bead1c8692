"""Measures jobs in a separate process, and stores in this one.

events      seeded JSON events with Zipf keys, written into a job's inputs
tasks       the tasks of `configs/bench/`, and the marks that they write for the measurement
child       runs one job in a separate process (`python -m samzapy.bench.child`)
measuring   starts that process, samples its process tree, and puts the measurement together
plan        the file of a store benchmark: scenarios, their stores and parameters, and ratios
targets     a store as a task gets it, and RocksDB itself
scenarios   reads and writes of keys and batches, scans, commits, restores
stores      prepares, warms up and repeats the cases of a test in turns
report      tables and JSON, the machine and versions, and which medians got worse
"""
