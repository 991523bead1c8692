"""The store stack: engine, uncommitted bytes, cached objects."""

from samzapy.storage.kv.uncommitted import InMemoryStorageEngineFactory

__all__ = ["InMemoryStorageEngineFactory"]
