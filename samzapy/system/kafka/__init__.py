"""Kafka, over confluent-kafka; nothing else in samzapy imports that library.

factory   settings -> clients
settings  job file keys -> librdkafka properties; keys that carry a guarantee are refused
client    one librdkafka handle: its log, its errors, and the cluster's metadata
consumer  assigned partitions -> columns of committed records
producer  records -> topics, every one acknowledged; transactions
queue     records -> librdkafka's queue; delivery reports
admin     topics and offsets
errors    librdkafka's errors -> samzapy's, by the reaction that they need
"""

from samzapy.system.kafka.factory import KafkaSystemFactory

__all__ = ["KafkaSystemFactory"]
