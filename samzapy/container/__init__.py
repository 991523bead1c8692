"""The one place where systems, stores, checkpoints and tasks meet: a container runs tasks."""
