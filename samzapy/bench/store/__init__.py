"""The harness for measuring stores: `samzapy bench store FILE.properties`.

parameters  the numbers of one set, checked, with their defaults
plan        the file: which scenarios, over which stores, with which numbers; the ratios it asks for
material    seeded keys and values
stopwatch   wall clock, CPU, sampled latencies and bytes written of the measured parts
targets     what is measured: a store as a task gets it
baselines   the same calls on RocksDB itself
scenarios   by name; kv_perf are Samza's own, loads and maintenance ours
measuring   prepares, warms up, repeats the sets of a test in turns
results     figures and ratios, as JSON
compare     two results, and which medians got worse
report      tables
plot        an SVG
"""
