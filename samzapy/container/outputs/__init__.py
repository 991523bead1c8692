"""Outputs: collectors, output ids, and the producers that tasks and their state share."""
