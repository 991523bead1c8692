"""Forwards each order once, though its producer may have sent it more than once."""

from __future__ import annotations

import msgspec

from samzapy import Pipeline


class Order(msgspec.Struct):
    """An order. Its key is a UUID that the producer assigned."""

    total: int


#: Recognizes an order by its key, and drops it when it comes again. Each task remembers the newest 100,000 orders.
pipeline = Pipeline("unique-orders")
pipeline.stream("events.orders", Order).deduplicate(capacity=100_000).to("events.unique-orders")
