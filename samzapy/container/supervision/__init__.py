"""The container's surroundings: its lease, the owner of its job, its metrics, its process."""
