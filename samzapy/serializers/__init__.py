"""Serdes: objects to bytes and back, byte for byte as Samza's serdes of the same names write them.

Each is as close to one call of a C function as its checks allow: they are mapped over whole batches.
"""

from samzapy.serializers.documents import JsonSerde, JsonSerdeFactory, MsgpackSerde, as_json, from_json
from samzapy.serializers.primitives import BytesSerde, DoubleSerde, IntegerSerde, LongSerde, StringSerde, UUIDSerde
from samzapy.serializers.refusals import decode_failure, encode_failure
from samzapy.serializers.registry import (
    MessageTypes,
    SerdeRegistry,
    StreamSerdes,
    TaskSerdes,
    UnknownSerde,
    message_types,
    serde_registry,
    task_serdes,
)
from samzapy.serializers.typed import TypedSerde

__all__ = [
    "BytesSerde",
    "DoubleSerde",
    "IntegerSerde",
    "JsonSerde",
    "JsonSerdeFactory",
    "LongSerde",
    "MessageTypes",
    "MsgpackSerde",
    "SerdeRegistry",
    "StreamSerdes",
    "StringSerde",
    "TaskSerdes",
    "TypedSerde",
    "UUIDSerde",
    "UnknownSerde",
    "as_json",
    "decode_failure",
    "encode_failure",
    "from_json",
    "message_types",
    "serde_registry",
    "task_serdes",
]
