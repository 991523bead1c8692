"""Sinks outside the job's systems, which commit together with the task that owns them."""

from samzapy.sinks.sql import SqlSink

__all__ = ["SqlSink"]
