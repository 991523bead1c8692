"""Side inputs, inputs read again and snapshots on a real Kafka: what a start without local files finds."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import pytest
from jobs import sourced_job

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(180)]
KEYS = 20


@pytest.fixture
def streams(kafka_settings, kafka_admin, unique_topic):
    """The names of two topics, and a function that appends (stream, key, number) in a transaction."""
    names = {"in": unique_topic("in"), "rates": unique_topic("rates")}
    for name in names.values():
        kafka_admin.create(StreamSpec(name, 1))
    settings = replace(kafka_settings)
    producer = KafkaSystemFactory().producer(settings, "test", unique_topic("id"))
    producer.init_transactions()

    def append(stream, numbers, *, commit=True):
        producer.begin()
        keyed = [(f"key-{number % KEYS}".encode(), b"%d" % number) for number in numbers]
        producer.send([OutgoingRecord(names[stream], key, value, 0) for key, value in keyed])
        producer.flush()
        producer.commit() if commit else producer.abort()

    yield names, append
    producer.close()


def test_a_start_without_files_finds_what_was_there_and_the_tails_of_it(tmp_path, kafka, streams):
    names, append = streams
    flat = sourced_job.job(
        tmp_path,
        **{
            "job.name": names["in"][-60:],
            "systems.log.samza.factory": "kafka",
            "systems.log.consumer.bootstrap.servers": kafka,
            "systems.log.default.stream.replication.factor": "1",
            "task.inputs": f"log.{names['in']}",
            "stores.rates.side.inputs": f"log.{names['rates']}",
            "stores.seen.restore.inputs": f"log.{names['in']}",
            "stores.counts.changelog": f"log.{names['in']}-changelog",
        },
    )
    expected = Counter(), Counter()
    found = []
    for start in (0, 300, 600):
        numbers = range(start, start + 300)
        # The log ends in an aborted transaction: its records and the markers are holes before the bound.
        for stream in ("in", "rates"):
            append(stream, numbers)
            append(stream, numbers, commit=False)
        for number in numbers:
            expected[0][f"key-{number % KEYS}"] += 1
            expected[1][f"key-{number % KEYS}"] += number
        keys = {"stores.counts.backup.interval.ms": "3600000"} if start == 300 else {}
        report = sourced_job.run(flat | keys)
        found.append({name.rpartition("/")[2]: told for name, told in report.restored.items()})
        told = json.loads((tmp_path / "told" / "Partition 0").read_text())
        assert told == {"seen": dict(expected[0]), "counts": dict(expected[0]), "rates": dict(expected[1])}
        shutil.rmtree(tmp_path / "state")
    assert [each["seen"][2] for each in found] == ["nothing", "inputs", "inputs"]
    assert [each["rates"][2] for each in found] == ["side inputs"] * 3
    # What lies behind the first snapshot may be the marker of its own transaction alone.
    assert found[1]["counts"][2].startswith("snapshot")
    assert found[2]["counts"][2] == "snapshot + changelog"
    assert [each["rates"][0] for each in found] == [300, 600, 900]
    assert [each["seen"][0] for each in found] == [0, 300, 600]
