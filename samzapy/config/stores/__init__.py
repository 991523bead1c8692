"""`stores.*`: engines, caches, changelogs, sources and backups of the stores."""

from samzapy.config.stores.store import StoreConfig

__all__ = ["StoreConfig"]
