"""Serdes: objects to bytes and back, byte for byte as Samza's serdes of the same names write them.

Each is as close to one call of a C function as its checks allow: they are mapped over whole batches.
"""

from samzapy.serializers.binary import BytesSerde, UUIDSerde
from samzapy.serializers.explain import decode_failure, encode_failure
from samzapy.serializers.json_serde import JsonSerde, JsonSerdeFactory
from samzapy.serializers.json_text import as_json
from samzapy.serializers.msgpack_serde import MsgpackSerde
from samzapy.serializers.numeric import DoubleSerde, IntegerSerde, LongSerde
from samzapy.serializers.registry import SerdeRegistry, UnknownSerde, serde_registry
from samzapy.serializers.text import StringSerde

__all__ = [
    "BytesSerde",
    "DoubleSerde",
    "IntegerSerde",
    "JsonSerde",
    "JsonSerdeFactory",
    "LongSerde",
    "MsgpackSerde",
    "SerdeRegistry",
    "StringSerde",
    "UUIDSerde",
    "UnknownSerde",
    "as_json",
    "decode_failure",
    "encode_failure",
    "serde_registry",
]
