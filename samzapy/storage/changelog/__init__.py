"""The changelog of a store: its topic, its end, its readers."""
