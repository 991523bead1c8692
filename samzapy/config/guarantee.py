"""The four delivery guarantees (the lists of Cloudflow, Kafka, Storm and Spark Streaming agree on them)."""

from __future__ import annotations

from enum import Enum


class Guarantee(Enum):
    """`task.guarantee`."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EFFECTIVELY_ONCE = "effectively-once"
    EXACTLY_ONCE = "exactly-once"
