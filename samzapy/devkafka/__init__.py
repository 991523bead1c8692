"""A real Kafka for development, without containers: its jars from Maven Central, run by the Java that Spark needs."""

from samzapy.devkafka.broker import DevBroker, RunningBroker
from samzapy.devkafka.runtime import Listener, kafka_versions

__all__ = ["DevBroker", "Listener", "RunningBroker", "kafka_versions"]
