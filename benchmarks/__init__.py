"""samzapy beside loops written by hand, on a real Kafka, in the same run: `python -m benchmarks`."""
