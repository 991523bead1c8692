"""Where the checkpoints of tasks' own states are kept: a compacted topic, or files.

factories   from `state.checkpoint.*` to a task's store
topic       in a topic, cut to records
files       a file for each checkpoint
"""

from samzapy.checkpoint.states.factories import (
    CheckpointStoreFactory,
    FileCheckpointStoreFactory,
    TopicCheckpointStoreFactory,
    store_factory,
)

__all__ = [
    "CheckpointStoreFactory",
    "FileCheckpointStoreFactory",
    "TopicCheckpointStoreFactory",
    "store_factory",
]
