"""Joins orders with customers, which arrive as changes of a database (CDC, in Debezium's form)."""

from __future__ import annotations

import msgspec

from samzapy import Pipeline


class Customer(msgspec.Struct):
    """A row of the table. Its key is the customer's id."""

    name: str
    country: str
    plan: str


class Change(msgspec.Struct):
    """A change of a row: `after` is the new row, None for a deleted one."""

    op: str
    after: Customer | None = None


class Order(msgspec.Struct):
    """An order. Its key is the customer's id."""

    id: str
    cents: int


class CustomerOrder(msgspec.Struct):
    """An order with the customer who made it; None for a customer who is not in the table."""

    order: Order
    customer: Customer | None


def _joined(order: Order, change: Change | None) -> CustomerOrder:
    return CustomerOrder(order, None if change is None else change.after)


#: Sends each order with the current row of its customer.
pipeline = Pipeline("customer-orders")
customers = pipeline.table("events.customers", Change)
pipeline.stream("events.customers-orders", Order).join(customers, _joined, how="left").to("events.customer-orders")
