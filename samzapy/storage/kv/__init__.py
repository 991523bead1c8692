"""The store stack: engine, uncommitted bytes, cached objects."""

from samzapy.storage.kv.memory import InMemoryStorageEngineFactory

__all__ = ["InMemoryStorageEngineFactory"]
