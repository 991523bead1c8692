"""The commit: one numbered protocol per delivery guarantee, and nothing else writes checkpoints or changelogs."""
