"""The commit: one numbered protocol, and nothing else writes checkpoints or changelogs."""
