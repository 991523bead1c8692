"""A Kafka system at an address, without a job file."""

from samzapy.api.system import SystemSettings


def kafka_at(bootstrap, **producer):
    """Settings of a system named `kafka`; `producer` are librdkafka's keys, `_` standing for a dot."""
    given = {key.replace("_", "."): str(value) for key, value in producer.items()}
    return SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": bootstrap}, producer=given)
