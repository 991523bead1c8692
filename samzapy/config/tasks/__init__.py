"""`task.*` and `state.checkpoint.*`: inputs, guarantee, timing, checkpoints and error policies of the tasks."""

from samzapy.config.tasks.task import TaskConfig

__all__ = ["TaskConfig"]
