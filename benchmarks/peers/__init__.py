"""samzapy beside other stream processors, on the same topic: `python -m benchmarks.peers`."""
