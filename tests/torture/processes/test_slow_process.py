"""A process() that outlasts its transaction: the broker aborts it and fences the producer, and the work is done
again."""

import logging
import uuid

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from crash_job import CrashJob, LedgerTask

from samzapy.verify.processes import until

pytestmark = pytest.mark.kafka

EVENTS = 600
SLOW_AT = 450


class SlowLedgerTask(LedgerTask):
    """Waits in the middle of a transaction, once, until the broker has ended it."""

    slow_until = None

    def process(self, envelope, collector, coordinator):
        if envelope.message == SLOW_AT and SlowLedgerTask.slow_until is not None:
            wait, SlowLedgerTask.slow_until = SlowLedgerTask.slow_until, None
            wait()
        super().process(envelope, collector, coordinator)


def end_of(admin: AdminClient, topic: str, level: IsolationLevel) -> int:
    at = TopicPartition(topic, 0)
    return admin.list_offsets({at: OffsetSpec.latest()}, isolation_level=level)[at].result().offset


def test_a_process_longer_than_its_transaction_costs_a_restart_only(kafka, tmp_path, caplog, outcome):
    keys = {"systems.sys.samza.factory": "kafka", "systems.sys.consumer.bootstrap.servers": kafka}
    job = CrashJob(keys, uuid.uuid4().hex[:8], tmp_path / "state", "exactly-once", partitions=1)
    job.flat |= {
        "task.class": f"{__name__}:SlowLedgerTask",
        "task.transaction.timeout.ms": "1000",
        "task.commit.ms": "999",
    }
    job.send(EVENTS)
    admin, topic = AdminClient({"bootstrap.servers": kafka, "log_level": 0}), f"{job.prefix}-out"
    ended = []

    def broker_has_ended_the_transaction():
        written = until(lambda: end_of(admin, topic, IsolationLevel.READ_UNCOMMITTED), "nothing was sent")
        until(
            lambda: end_of(admin, topic, IsolationLevel.READ_COMMITTED) > written, "the transaction is still open", 120
        )
        ended.append(written)

    SlowLedgerTask.slow_until = broker_has_ended_the_transaction
    caplog.set_level(logging.WARNING, "samzapy")
    job.run()
    numbers = job.numbers(faults=1)
    job.close()
    assert len(ended) == 1
    assert any("longer than task.transaction.timeout.ms (1000)" in record.message for record in caplog.records)
    outcome("process() longer than its transaction", **numbers)
