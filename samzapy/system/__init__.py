"""Messaging systems: `kafka`, the embedded `local` (one SQLite file) and `memory` (the test kit's broker)."""
