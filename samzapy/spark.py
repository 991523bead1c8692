"""The former name of `samzapy.dataframe`; programs that import it go on working."""

from samzapy.dataframe import StoreWritten, read_store, write_store

__all__ = ["StoreWritten", "read_store", "write_store"]
