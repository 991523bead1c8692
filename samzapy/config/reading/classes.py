"""Lists the built-in plug-ins: short names and Samza's Java class names, each with the path of samzapy's class.

A new system, engine or serde is one line here. Nothing is imported.
"""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.config.reading.keys import Kind, choice, class_path


class KnownClasses:
    """The known classes of one kind of plug-in, by short name and by Java class name.

    The simple name of a Java class within `org.apache.samza` decides, since packages moved between releases.
    """

    def __init__(self, short: Mapping[str, str], java: Mapping[str, str], example: str) -> None:
        self.short = short
        self._java = java
        self.kind: Kind[str] = class_path(self.path, short, example)

    def path(self, text: str) -> str | None:
        """The class path for the name `text`, None for an unknown name."""
        if text.startswith("org.apache.samza."):
            return self._java.get(text.rpartition(".")[2])
        return self.short.get(text)


_KAFKA = "samzapy.system.kafka:KafkaSystemFactory"
_MEMORY = "samzapy.system.local.factory:MemorySystemFactory"
SYSTEMS = KnownClasses(
    {
        "kafka": _KAFKA,
        "local": "samzapy.system.local.factory:LocalSystemFactory",
        "memory": _MEMORY,
        "database": "samzapy.system.database:DatabaseSystemFactory",
    },
    {"KafkaSystemFactory": _KAFKA, "InMemorySystemFactory": _MEMORY},
    "my.module:MySystemFactory",
)

_ROCKSDB = "samzapy.storage.rocksdb:RocksDbStorageEngineFactory"
_IN_MEMORY = "samzapy.storage.kv:InMemoryStorageEngineFactory"
_JAVA_ENGINES = {"RocksDbKeyValueStorageEngineFactory": _ROCKSDB, "InMemoryKeyValueStorageEngineFactory": _IN_MEMORY}
_BYTE_ENGINES = {"rocksdb": _ROCKSDB, "inmemory": _IN_MEMORY, "memory": _IN_MEMORY}
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
    {"KafkaCheckpointManagerFactory": TOPIC_CHECKPOINTS, "FileSystemCheckpointManagerFactory": FILE_CHECKPOINTS},
    "my.module:MyCheckpointManagerFactory",
)

ROUND_ROBIN = "round-robin"
CHOOSERS = KnownClasses({ROUND_ROBIN: ROUND_ROBIN}, {"RoundRobinChooserFactory": ROUND_ROBIN}, "my.module:MyChooser")

_GROUPERS = {
    "GroupByPartitionFactory": "partition",
    "GroupBySystemStreamPartitionFactory": "ssp",
    "AllSspToSingleTaskGrouperFactory": "single",
}
_GROUPER = choice("partition", "ssp", "single")


def _grouper(text: str) -> str:
    simple = text.rpartition(".")[2] if text.startswith("org.apache.samza.") else text
    return _GROUPER.parse(_GROUPERS.get(simple, text))


#: The user cannot add a grouper: a task finds its state by its name, so such a grouper could never be changed safely.
GROUPER: Kind[str] = Kind(_GROUPER.allowed, _grouper)

#: A class of the user's without a short name.
USER_CLASS = class_path(lambda _: None, (), "my.module:MyClass")
#: A class, or an alias of a generic (`UserMap = dict[str, int]`), to decode keys or messages to.
MESSAGE_TYPE = class_path(lambda _: None, (), "my.module:PageView")

_STRING = "samzapy.serializers:StringSerde"
_INTEGER = "samzapy.serializers:IntegerSerde"
_LONG = "samzapy.serializers:LongSerde"
_DOUBLE = "samzapy.serializers:DoubleSerde"
_BYTES = "samzapy.serializers:BytesSerde"
_JSON = "samzapy.serializers:JsonSerdeFactory"
_UUID = "samzapy.serializers:UUIDSerde"
_SCHEMAS = "samzapy.serializers.schemas"
SERDES = KnownClasses(
    {
        "string": _STRING,
        "integer": _INTEGER,
        "long": _LONG,
        "double": _DOUBLE,
        "bytes": _BYTES,
        "byte": _BYTES,
        "bytebuffer": _BYTES,
        "uuid": _UUID,
        "json": _JSON,
        "msgpack": "samzapy.serializers:MsgpackSerde",
        "avro": f"{_SCHEMAS}:AvroSerdeFactory",
        "json-schema": f"{_SCHEMAS}:JsonSchemaSerdeFactory",
        "protobuf": f"{_SCHEMAS}:ProtobufSerdeFactory",
    },
    {
        "StringSerdeFactory": _STRING,
        "IntegerSerdeFactory": _INTEGER,
        "LongSerdeFactory": _LONG,
        "DoubleSerdeFactory": _DOUBLE,
        "ByteSerdeFactory": _BYTES,
        "ByteBufferSerdeFactory": _BYTES,
        "UUIDSerdeFactory": _UUID,
        "JsonSerdeFactory": _JSON,
        "JsonSerdeV2Factory": _JSON,
        "MetricsSnapshotSerdeFactory": _JSON,
        "MetricsSnapshotSerdeV2Factory": _JSON,
    },
    "my.module:MySerde",
)
#: The serdes with a schema registry: short names by class path.
SCHEMA_SERDES = {SERDES.short[name]: name for name in ("avro", "json-schema", "protobuf")}
