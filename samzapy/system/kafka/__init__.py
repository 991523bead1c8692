"""`systems.NAME.samza.factory=kafka`, over confluent-kafka; nothing else in samzapy imports that library.

settings  job file keys -> librdkafka properties; keys that carry a guarantee are refused
client    one librdkafka handle: its log, its errors, and the cluster's metadata
consumer  assigned partitions -> columns of committed records
producer  records -> topics, every one acknowledged; transactions
queue     records -> librdkafka's queue; delivery reports
admin     topics and offsets
errors    librdkafka's errors -> samzapy's, by the reaction that they need
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress

from samzapy.api.system import SystemAdmin, SystemConsumer, SystemFactory, SystemProducer, SystemSettings, SystemTraits
from samzapy.errors import SamzapyError
from samzapy.system.clients import record_limit
from samzapy.system.kafka.admin import KafkaAdmin
from samzapy.system.kafka.client import Connection
from samzapy.system.kafka.consumer import KafkaConsumer
from samzapy.system.kafka.gate import gate_of
from samzapy.system.kafka.producer import KafkaProducer
from samzapy.system.kafka.queue import LARGEST_RECORD
from samzapy.system.kafka.settings import (
    admin_properties,
    bootstrap_servers,
    check_settings,
    consumer_properties,
    producer_properties,
)

__all__ = ["KafkaSystemFactory"]


class KafkaSystemFactory(SystemFactory):
    """Clients of one Kafka cluster; each connects at its first call, so they may be made before a fork."""

    #: The most seconds that a transactional call may take.
    transactional_call_s = 30.0

    def consumer(self, settings: SystemSettings, client_id: str) -> SystemConsumer:
        return KafkaConsumer(_connection(settings, consumer_properties(settings, client_id)))

    def producer(
        self, settings: SystemSettings, client_id: str, transactional_id: str | None = None, timeout_ms: int = 60_000
    ) -> SystemProducer:
        properties = producer_properties(settings, client_id, transactional_id, timeout_ms)

        def limit_of(topic: str) -> int | None:
            with closing(self.admin(settings, client_id)) as admin, suppress(SamzapyError):
                described = admin.describe(topic)
                said = "" if described is None else described.config.get("max.message.bytes", "")
                return int(said) if said.isdigit() else None
            return None

        return KafkaProducer(
            _connection(settings, properties), transactional_id, call_s=self.transactional_call_s, limit_of=limit_of
        )

    def admin(self, settings: SystemSettings, client_id: str) -> SystemAdmin:
        return KafkaAdmin(_connection(settings, admin_properties(settings, client_id)))

    def traits(self, settings: SystemSettings) -> SystemTraits:
        """By the job file; librdkafka's defaults are 1,000,000 bytes, and no compression."""
        codecs = (settings.producer.get(key, "none") for key in ("compression.type", "compression.codec"))
        largest = record_limit(settings) if "message.max.bytes" in settings.producer else LARGEST_RECORD
        return SystemTraits(
            max_record_bytes=largest, compresses=any(codec != "none" for codec in codecs), transactional=True
        )

    def check(self, settings: SystemSettings) -> None:
        check_settings(settings)


def _connection(settings: SystemSettings, properties: Mapping[str, str]) -> Connection:
    servers = bootstrap_servers(settings)
    return Connection(settings.name, servers, properties, gate_of(servers))
