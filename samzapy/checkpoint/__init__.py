"""Keeps the checkpoints of a job: in a topic or in files."""

from samzapy.checkpoint.factories import (
    CheckpointManagerFactory,
    Clients,
    FileCheckpointManagerFactory,
    TopicCheckpointManagerFactory,
    manager_for,
)
from samzapy.config.job import checkpoint_topic

__all__ = [
    "CheckpointManagerFactory",
    "Clients",
    "FileCheckpointManagerFactory",
    "TopicCheckpointManagerFactory",
    "checkpoint_topic",
    "manager_for",
]
