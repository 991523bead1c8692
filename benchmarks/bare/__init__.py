"""The same work by hand, as a skilled engineer writes it for one job: confluent-kafka, orjson, rocksdict, no samzapy.

Each module is a program of its own; it prints one line of JSON when it is done. What samzapy adds to this (restarts,
fencing, moving of tasks, other systems and engines, checks of what it finds) is what its price is to be judged by.
"""
