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

from samzapy.serializers.schemas.factories import AvroSerdeFactory, JsonSchemaSerdeFactory, ProtobufSerdeFactory

__all__ = ["AvroSerdeFactory", "JsonSchemaSerdeFactory", "ProtobufSerdeFactory"]
