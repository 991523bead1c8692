"""The engine on disk; the only importer of rocksdict."""

from samzapy.storage.rocksdb.factory import RocksDbStorageEngineFactory

__all__ = ["RocksDbStorageEngineFactory"]
