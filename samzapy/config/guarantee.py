"""The four delivery guarantees (the lists of Cloudflow, Kafka, Storm and Spark Streaming agree on them)."""

from __future__ import annotations

from enum import Enum


class Guarantee(Enum):
    """`task.guarantee`: what a crash may do to outputs and positions. State is one transaction in each of them, on
    systems that have transactions."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EFFECTIVELY_ONCE = "effectively-once"
    EXACTLY_ONCE = "exactly-once"

    @property
    def transactional(self) -> bool:
        """Whether it cannot be kept without transactions."""
        return self in {Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE}
