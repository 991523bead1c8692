"""Plans which tasks run in which container: pure functions over names, no I/O."""
