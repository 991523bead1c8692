"""Makes the serdes with a registry from their settings. Their libraries are imported here, when one is made."""

from __future__ import annotations

import importlib
from typing import ClassVar

from samzapy.api.serde import Serde, SerdeFactory
from samzapy.config.reading.classes import SERDES
from samzapy.config.reading.reader import Reader
from samzapy.config.streams.schemas import parse_schemas
from samzapy.errors import ConfigError, SerdeError


class _SchemaSerdeFactory(SerdeFactory):
    name: ClassVar[str]
    module: ClassVar[str]
    made: ClassVar[str]

    def serde(self, name: str, settings: dict[str, str]) -> Serde:
        """Connects nowhere. Raises ConfigError with all problems of the settings, SerdeError if a library is
        missing."""
        reader = Reader({f"serializers.registry.{name}.{leaf}": value for leaf, value in settings.items()})
        found = parse_schemas(reader, name, SERDES.short[self.name])
        if reader.problems:
            raise ConfigError(reader.problems)
        try:
            answers = importlib.import_module("samzapy.serializers.schemas.answers")
            kind = getattr(importlib.import_module(self.module), self.made)
        except ImportError as cause:
            raise SerdeError(
                f"serde {self.name} needs {cause.name}; install it: pip install 'samzapy[schema]'"
            ) from cause
        serde: Serde = kind(found, answers.Registry(found, kind.kind), None, None)
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
