"""Keeps a row of features for each shopper. A model looks them up, by HTTP or from Python, while the job runs."""

from __future__ import annotations

import msgspec

from samzapy import (
    Context,
    IncomingMessageEnvelope,
    InitableTask,
    KeyValueStore,
    MessageCollector,
    StreamTask,
    TaskCoordinator,
)

#: After a week, an order counts half in `recent_cents`.
HALF_LIFE_MS = 7 * 86_400_000


class Order(msgspec.Struct):
    """An order in a shop. Its key is the shopper."""

    cents: int
    category: str


class Features(msgspec.Struct, frozen=True):
    """The features of a shopper, as of the last order."""

    orders: int
    cents: int
    recent_cents: float
    last_order_ms: int
    categories: dict[str, int]


class ShopperFeaturesTask(StreamTask[str, Order], InitableTask):
    """Keeps the features of each shopper in the store `features`."""

    _features: KeyValueStore[str, Features]

    def init(self, context: Context) -> None:
        self._features = context.get_store("features")

    def process(
        self, envelope: IncomingMessageEnvelope[str, Order], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        order, now = envelope.message, envelope.event_time
        known = self._features.get(envelope.key) or Features(0, 0, 0.0, now, {})
        since_ms = max(now - known.last_order_ms, 0)
        features = Features(
            orders=known.orders + 1,
            cents=known.cents + order.cents,
            recent_cents=known.recent_cents * 0.5 ** (since_ms / HALF_LIFE_MS) + order.cents,
            last_order_ms=now,
            categories={**known.categories, order.category: known.categories.get(order.category, 0) + 1},
        )
        self._features.put(envelope.key, features)
