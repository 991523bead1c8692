"""Serdes with schemas from a schema registry, in the format of Confluent's serdes.

    byte 0       0, the magic byte
    bytes 1-4    the id of the schema that wrote the message, big endian
    the rest     protobuf: the place of the message's class in its file (one byte 0 for the first); then the message

1. The registry is asked once for each id and once for each subject that is written to, never once for each message.
   Its answers are kept in memory; a restart asks again.
2. A registry that does not answer, or refuses the job's rights, ends the attempt under every error policy: the message
   is not at fault. A message with an unknown id, or that does not fit its schema, is an error of that message.
3. The libraries come with `samzapy[schema]` and are imported when such a serde is made.
"""

from __future__ import annotations

import importlib
from typing import ClassVar

from samzapy.api.serde import Serde, SerdeFactory
from samzapy.config.reading.classes import SERDES
from samzapy.config.reading.keys import Reader
from samzapy.config.streams.serdes import parse_schemas
from samzapy.errors import SerdeError, raise_if_any


class _SchemaSerdeFactory(SerdeFactory):
    name: ClassVar[str]
    module: ClassVar[str]
    made: ClassVar[str]

    def serde(self, name: str, settings: dict[str, str]) -> Serde:
        """Connects nowhere. Raises ConfigError with all problems of the settings, SerdeError if a library is
        missing."""
        reader = Reader({f"serializers.registry.{name}.{leaf}": value for leaf, value in settings.items()})
        result = parse_schemas(reader, name, SERDES.short[self.name])
        raise_if_any(reader.problems)
        try:
            kind = getattr(importlib.import_module(self.module), self.made)
        except ImportError as cause:
            raise SerdeError(
                f"serde {self.name} needs {cause.name}; install it: pip install 'samzapy[schema]'"
            ) from cause
        serde: Serde = kind(result)
        return serde


class AvroSerdeFactory(_SchemaSerdeFactory):
    """`avro`."""

    name, module, made = "avro", "samzapy.serializers.schemas.avro", "AvroSerde"


class JsonSchemaSerdeFactory(_SchemaSerdeFactory):
    """`json-schema`."""

    name, module, made = "json-schema", "samzapy.serializers.schemas.json_schema", "JsonSchemaSerde"


class ProtobufSerdeFactory(_SchemaSerdeFactory):
    """`protobuf`."""

    name, module, made = "protobuf", "samzapy.serializers.schemas.protobuf", "ProtobufSerde"
