"""Sums sales by product: Arrow groups each batch, so the store is accessed once for each product. Needs
`samzapy[arrow]`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from samzapy.api.batch import BatchTask, MessageBatch
from samzapy.api.collector import MessageCollector, TaskCoordinator
from samzapy.api.context import Context
from samzapy.api.kv import KeyValueStore
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask


@dataclass
class Sale:
    """A line of a receipt. Its key is the product."""

    product: str
    quantity: int
    cents: int


@dataclass
class Sold:
    """The sum of a product's sales."""

    quantity: int
    cents: int


def together(one: Sold, other: Sold) -> Sold:
    """The sum of both."""
    return Sold(one.quantity + other.quantity, one.cents + other.cents)


class SalesTask(BatchTask[str, Sale], InitableTask):
    """Adds up sales by product in the store `sold`, and sends the new sum of each product in the batch.

    `sales.output` in the job file names the output as `system.stream`.
    """

    _sold: KeyValueStore[str, Sold]
    _output: SystemStream

    def init(self, context: Context) -> None:
        self._sold = context.get_store("sold")
        self._output = SystemStream.parse(context.job.config["sales.output"])

    def process_batch(
        self, batch: MessageBatch[str, Sale], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        sales = pa.Table.from_batches([batch.to_arrow(Sale)])
        sums = sales.group_by("product").aggregate([("quantity", "sum"), ("cents", "sum")]).drop_null()
        products = sums["product"].to_pylist()
        of_batch = map(Sold, sums["quantity_sum"].to_pylist(), sums["cents_sum"].to_pylist())
        self._sold.merge_all(dict(zip(products, of_batch, strict=True)), together)
        sold = [self._sold.get(product) for product in products]
        totals = {name: [getattr(each, name) for each in sold] for name in ("quantity", "cents")}
        collector.send_arrow(self._output, pa.table({"product": products, **totals}), key="product")
