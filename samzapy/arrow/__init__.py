"""Batches of messages as Arrow tables, and tables as outputs. Needs `samzapy[arrow]`."""
