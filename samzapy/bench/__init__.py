"""The harness for measuring jobs: events to load, a job run in a process of its own, what it used.

events      seeded JSON events with Zipf keys
tasks       the tasks of `configs/bench/`
marks       what a measured task tells: when it began and ended, and the CPU time between
load        writes events into a job's inputs
processes   samples a process tree
child       runs one job in a process of its own (`python -m samzapy.bench.child`)
job         starts that process, samples it, and puts the measurement together
machine     what it ran on
report      a measurement as a table
"""
