"""Orders in each format of a schema registry, and a task that counts them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream

OUT = SystemStream("events", "totals")

AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "user", "type": "string"}, {"name": "amount", "type": "long"}],
}
AVRO_NEXT = {**AVRO, "fields": [*AVRO["fields"], {"name": "city", "type": "string", "default": "?"}]}
JSON = {
    "type": "object",
    "title": "Order",
    "properties": {"user": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["user", "amount"],
    "additionalProperties": False,
}


class Order(msgspec.Struct):
    user: str
    amount: int


def message_class(*fields: tuple[str, int], name: str = "Order", inner: Any = None) -> Any:
    """A class as protoc generates it, of `shop.NAME`; (field, number of its type) each."""
    file = descriptor_pb2.FileDescriptorProto(name=f"shop/{name.lower()}.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, kind) in enumerate(fields, 1):
        message.field.add(name=field, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    if inner is not None:
        pool.AddSerializedFile(inner.DESCRIPTOR.file.serialized_pb)
        file.dependency.append(inner.DESCRIPTOR.file.name)
        type_name = f".{inner.DESCRIPTOR.full_name}"
        message.field.add(name="inner", number=9, type=11, label=1, type_name=type_name)
        second = file.message_type.add(name=f"Second{name}")
        second.field.add(name="inner", number=1, type=11, label=3, type_name=type_name)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))


STRING, INT64 = 9, 3
OrderMessage = message_class(("user", STRING), ("amount", INT64))


def registry_keys(name: str, url: str, schema: object = None, **settings: str) -> dict[str, str]:
    """The settings of the serde `name`."""
    keys = {"url": url, **{key.replace("_", "."): value for key, value in settings.items()}}
    if schema is not None:
        keys["schema"] = json.dumps(schema)
    return {f"serializers.registry.{name}.{key}": value for key, value in keys.items()}


class TotalsTask(StreamTask, InitableTask):
    """Adds up the amounts of each user's orders in a store; sends the new total."""

    def init(self, context):
        self.totals = context.get_store("totals")

    def process(self, envelope, collector, coordinator):
        order = envelope.message
        before = self.totals.get(order["user"])
        total = {"user": order["user"], "amount": order["amount"] + (before["amount"] if before else 0)}
        self.totals.put(order["user"], total)
        collector.send(OutgoingMessageEnvelope(OUT, total, key=order["user"]))


class TypedTask(StreamTask[str, Order]):
    """Sends each order on."""

    def process(self, envelope, collector, coordinator):
        order = envelope.message
        assert type(order) is Order
        collector.send(OutgoingMessageEnvelope(OUT, Order(order.user, order.amount + 1), key=envelope.key))
