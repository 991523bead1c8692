"""The harness for measuring stores: `samzapy bench store FILE.properties`.

plan        the file: the scenarios, their stores, their parameters, and the ratios it asks for
material    the parameters of a case, and seeded keys and values
targets     a store as a task gets it, and RocksDB itself with less around it
scenario    the base of a scenario and its stopwatch; kv_perf are Samza's own scenarios, scenarios are ours
measuring   prepares, warms up, repeats the cases of a test in turns
results     figures and ratios as JSON, as tables and as an SVG, and which medians got worse
"""
