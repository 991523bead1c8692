"""Clients of Kafka give their threads back when they are closed, also without a broker."""

import psutil
import pytest

from samzapy.api.system import SystemSettings
from samzapy.system.kafka import KafkaSystemFactory
from samzapy.verify.processes import until

#: Nothing listens there.
SETTINGS = SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": "127.0.0.1:9"})


def threads():
    return psutil.Process().num_threads()


@pytest.mark.parametrize("transactional_id", [None, "t"])
def test_producers_that_are_closed_leave_no_thread_behind(transactional_id):
    factory = KafkaSystemFactory()
    before = threads()
    for _ in range(20):
        producer = factory.producer(SETTINGS, "p", transactional_id)
        # A client of librdkafka is made by the first call that needs it, and dies with the last reference.
        producer._client  # noqa: B018
        assert threads() > before
        producer.close()
    until(lambda: threads() <= before, lambda: f"{threads()} threads, {before} before", timeout_s=30)
