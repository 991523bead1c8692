"""Batches of messages as Arrow tables, and tables as outputs. Needs `samzapy[arrow]`."""

from samzapy.arrow.columns import record_batch, to_pandas, to_polars
from samzapy.arrow.rows import Rows, rows_of

__all__ = ["Rows", "record_batch", "rows_of", "to_pandas", "to_polars"]
