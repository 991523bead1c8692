"""The harness for measuring jobs: events to load, a job in a process of its own, and what it used.

events      seeded JSON events with Zipf keys, written into a job's inputs
tasks       the tasks of `configs/bench/`, and the marks by which they are measured
child       runs one job in a process of its own (`python -m samzapy.bench.child`)
processes   samples a process tree
measuring   starts that process, samples it, and puts the measurement together
report      a measurement as a table, and the machine it was made on
store       the harness for stores
"""
