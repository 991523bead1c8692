"""The harness for measuring jobs: loads events, runs a job in a separate process, and measures its resources.

events      seeded JSON events with Zipf keys, written into a job's inputs
tasks       the tasks of `configs/bench/`, and the marks that they write for the measurement
child       runs one job in a separate process (`python -m samzapy.bench.child`)
processes   samples a process tree
measuring   starts that process, samples it, and puts the measurement together
report      a measurement as a table, and the machine it was made on
store       the harness for stores
"""
