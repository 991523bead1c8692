"""`task.*` and `state.checkpoint.*`: what a task reads, promises and does with errors."""

from samzapy.config.tasks.task import TaskConfig

__all__ = ["TaskConfig"]
