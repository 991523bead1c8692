"""Messaging systems: `kafka`, the embedded `local` (one SQLite file), `memory` (the test kit's broker), and, to read
only, `database` (tables of any)."""
