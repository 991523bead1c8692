"""The changelog of a store: its topic, its end, and the ways to read it."""
