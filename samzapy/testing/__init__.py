"""What users test their tasks with; the product's own tests use it too."""

from samzapy.testing.store import OpenStore, open_store

__all__ = ["OpenStore", "open_store"]
