"""Lists the built-in plug-ins: short names and Samza's Java class names, each with the path of samzapy's class.

A new system, engine or serde is one line here. Nothing is imported.
"""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.config.reading.keys import Kind, choice, class_path, samza_class


class KnownClasses:
    """The known classes of one kind of plug-in, by short name. `java`: short names by the names of Samza's Java
    classes."""

    def __init__(self, short: Mapping[str, str], java: Mapping[str, str], example: str) -> None:
        self.short, self._java = short, java
        self.kind: Kind[str] = class_path(self.path, short, example)

    def path(self, text: str) -> str | None:
        """The class path for the name `text`, None for an unknown name."""
        java = samza_class(text)
        return self.short.get(self._java.get(java, "") if java else text)


SYSTEMS = KnownClasses(
    {
        "kafka": "samzapy.system.kafka:KafkaSystemFactory",
        "local": "samzapy.system.local.factory:LocalSystemFactory",
        "memory": "samzapy.system.local.factory:MemorySystemFactory",
        "database": "samzapy.system.database:DatabaseSystemFactory",
    },
    {"KafkaSystemFactory": "kafka", "InMemorySystemFactory": "memory"},
    "my.module:MySystemFactory",
)

_IN_MEMORY = "samzapy.storage.kv:InMemoryStorageEngineFactory"
_BYTE_ENGINES = {
    "rocksdb": "samzapy.storage.rocksdb:RocksDbStorageEngineFactory",
    "inmemory": _IN_MEMORY,
    "memory": _IN_MEMORY,
}
_JAVA_ENGINES = {"RocksDbKeyValueStorageEngineFactory": "rocksdb", "InMemoryKeyValueStorageEngineFactory": "inmemory"}
#: Engines that keep bytes by key.
BYTE_ENGINES = KnownClasses(_BYTE_ENGINES, _JAVA_ENGINES, "my.module:MyStorageEngineFactory")
_VIEWS = "samzapy.storage.views"
#: The byte engines, and the views: engines with another interface over a byte engine.
ENGINES = KnownClasses(
    {
        **_BYTE_ENGINES,
        "heap": f"{_VIEWS}.heap:HeapStoreFactory",
        "bloom": f"{_VIEWS}.sketches:BloomFiltersFactory",
        "hyperloglog": f"{_VIEWS}.sketches:DistinctCountsFactory",
        "quantiles": f"{_VIEWS}.sketches:QuantilesFactory",
        "inverted-index": f"{_VIEWS}.inverted_index:InvertedIndexFactory",
        "cube": f"{_VIEWS}.cube:CubeFactory",
        "timers": f"{_VIEWS}.timers:TimersFactory",
    },
    _JAVA_ENGINES,
    "my.module:MyStorageEngineFactory",
)

TOPIC_CHECKPOINTS = "samzapy.checkpoint:TopicCheckpointManagerFactory"
FILE_CHECKPOINTS = "samzapy.checkpoint:FileCheckpointManagerFactory"
NO_CHECKPOINTS = "none"
CHECKPOINTS = KnownClasses(
    {"topic": TOPIC_CHECKPOINTS, "kafka": TOPIC_CHECKPOINTS, "file": FILE_CHECKPOINTS, "none": NO_CHECKPOINTS},
    {"KafkaCheckpointManagerFactory": "topic", "FileSystemCheckpointManagerFactory": "file"},
    "my.module:MyCheckpointManagerFactory",
)

ROUND_ROBIN = "round-robin"
CHOOSERS = KnownClasses({ROUND_ROBIN: ROUND_ROBIN}, {"RoundRobinChooserFactory": ROUND_ROBIN}, "my.module:MyChooser")

#: The user cannot add a grouper: a task finds its state by its name, so such a grouper could never be changed safely.
GROUPER = choice(
    "partition",
    "ssp",
    "single",
    java={
        "GroupByPartitionFactory": "partition",
        "GroupBySystemStreamPartitionFactory": "ssp",
        "AllSspToSingleTaskGrouperFactory": "single",
    },
)

#: A class of the user's without a short name.
USER_CLASS = class_path(lambda _: None, (), "my.module:MyClass")
#: A class, or an alias of a generic (`UserMap = dict[str, int]`), to decode keys or messages to.
MESSAGE_TYPE = class_path(lambda _: None, (), "my.module:PageView")

_SERDES = "samzapy.serializers"
_SCHEMAS = f"{_SERDES}.schemas"
SERDES = KnownClasses(
    {
        "string": f"{_SERDES}:StringSerde",
        "integer": f"{_SERDES}:IntegerSerde",
        "long": f"{_SERDES}:LongSerde",
        "double": f"{_SERDES}:DoubleSerde",
        "bytes": f"{_SERDES}:BytesSerde",
        "byte": f"{_SERDES}:BytesSerde",
        "bytebuffer": f"{_SERDES}:BytesSerde",
        "uuid": f"{_SERDES}:UUIDSerde",
        "json": f"{_SERDES}:JsonSerdeFactory",
        "msgpack": f"{_SERDES}:MsgpackSerde",
        "avro": f"{_SCHEMAS}:AvroSerdeFactory",
        "json-schema": f"{_SCHEMAS}:JsonSchemaSerdeFactory",
        "protobuf": f"{_SCHEMAS}:ProtobufSerdeFactory",
    },
    {
        "StringSerdeFactory": "string",
        "IntegerSerdeFactory": "integer",
        "LongSerdeFactory": "long",
        "DoubleSerdeFactory": "double",
        "ByteSerdeFactory": "bytes",
        "ByteBufferSerdeFactory": "bytes",
        "UUIDSerdeFactory": "uuid",
        "JsonSerdeFactory": "json",
        "JsonSerdeV2Factory": "json",
        "MetricsSnapshotSerdeFactory": "json",
        "MetricsSnapshotSerdeV2Factory": "json",
    },
    "my.module:MySerde",
)
#: The serdes with a schema registry: short names by class path.
SCHEMA_SERDES = {SERDES.short[name]: name for name in ("avro", "json-schema", "protobuf")}
