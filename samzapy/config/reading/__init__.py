"""Reads a job file: its text, references, keys and values, and the secrets among them."""
