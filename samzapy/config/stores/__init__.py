"""`stores.*`: what a task keeps."""

from samzapy.config.stores.store import StoreConfig

__all__ = ["StoreConfig"]
