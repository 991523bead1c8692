"""The tasks behind `configs/`: importable on every executor, and meant to be read."""
