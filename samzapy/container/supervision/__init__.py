"""The container as seen from outside: its lease, its job's owner, its metrics, its process."""
