"""The programs of the peers in Python; each runs in an environment of its own, without the rest of this package."""
