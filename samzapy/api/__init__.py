"""The vocabulary of samzapy: interfaces and values, from the standard library only.

The packages above implement and call these; nothing here imports them. `samzapy` itself exports the names that tasks
need.
"""
