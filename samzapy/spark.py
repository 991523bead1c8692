"""The former name of `samzapy.dataframe`, for programs that still import it."""

from samzapy.dataframe import StoreWritten, read_store, write_store

__all__ = ["StoreWritten", "read_store", "write_store"]
