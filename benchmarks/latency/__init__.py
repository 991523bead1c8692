"""Latency of samzapy and other stream processors, from append to readable: `python -m benchmarks.latency`."""
