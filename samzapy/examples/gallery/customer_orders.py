"""Joins orders with the customers of a database. The customers arrive as changes of the database (CDC, in Debezium's
form)."""

from __future__ import annotations

import msgspec

from samzapy import (
    Context,
    CopartitionedTask,
    IncomingMessageEnvelope,
    InitableTask,
    KeyValueStore,
    MessageCollector,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    TaskCoordinator,
)


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
    """An order with the customer who made it."""

    order: Order
    customer: Customer


#: The orders that wait for one customer.
Orders = list[Order]
CUSTOMERS = "customers"


class CustomerOrdersTask(StreamTask, InitableTask, CopartitionedTask):
    """Sends each order with the present row of its customer; an order that is here before its customer waits.

    `customer.orders.output` in the job file names the output, as `system.stream`.
    """

    _customers: KeyValueStore[str, Customer]
    _waiting: KeyValueStore[str, Orders]
    _output: SystemStream

    def init(self, context: Context) -> None:
        self._customers = context.get_store("customers")
        self._waiting = context.get_store("waiting")
        self._output = SystemStream.parse(context.job.config["customer.orders.output"])

    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        key, message = envelope.key, envelope.message
        if isinstance(message, Order):
            customer = self._customers.get(key)
            if customer is None:
                self._waiting.put(key, [*(self._waiting.get(key) or ()), message])
            else:
                self._send(key, message, customer, collector)
        elif envelope.ssp.stream == CUSTOMERS:
            self._change(key, message, collector)

    def _change(self, key: str, change: Change | None, collector: MessageCollector) -> None:
        # Debezium writes a deletion twice: as a change without a row, and as a message without a value for compaction.
        if change is None or change.after is None:
            self._customers.delete(key)
            return
        self._customers.put(key, change.after)
        waiting = self._waiting.get(key)
        if waiting:
            for order in waiting:
                self._send(key, order, change.after, collector)
            self._waiting.delete(key)

    def _send(self, key: str, order: Order, customer: Customer, collector: MessageCollector) -> None:
        collector.send(OutgoingMessageEnvelope(self._output, CustomerOrder(order, customer), key=key))
