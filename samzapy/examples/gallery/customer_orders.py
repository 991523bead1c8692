"""Joins orders with customers, which arrive as changes of a database (CDC, in Debezium's form)."""

from __future__ import annotations

import msgspec

import samzapy
from samzapy import Context, MessageCollector, OutgoingMessageEnvelope, SystemStream, TaskCoordinator
from samzapy.operators.joins import StreamTableJoin

OUTPUT = SystemStream("events", "customer-orders")


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


class CustomerOrdersTask(samzapy.StreamTask, samzapy.InitableTask, samzapy.CopartitionedTask):
    """Sends each order with the current row of its customer."""

    _customers: StreamTableJoin

    def init(self, context: Context) -> None:
        orders, table = SystemStream("events", "customers-orders"), SystemStream("events", "customers")
        self._customers = StreamTableJoin(context, "customers", stream=orders, table=table)

    def process(
        self, envelope: samzapy.IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        if isinstance(envelope.message, Change):
            envelope = envelope._replace(message=envelope.message.after)
        joined = self._customers.add(envelope)
        if joined is not None and envelope.message is not None:
            order = CustomerOrder(envelope.message, joined.right and joined.right.value)
            collector.send(OutgoingMessageEnvelope(OUTPUT, order, key=envelope.key))
