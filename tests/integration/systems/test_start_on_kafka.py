"""What a start asks of a Kafka: so many questions, whatever the number of stores and partitions."""

from collections import Counter
from functools import partial

import pytest

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.api.task import InitableTask, StreamTask
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory
from samzapy.system.kafka import admin as kafka_admins
from samzapy.system.kafka import client as kafka_clients
from samzapy.system.kafka import fetching as kafka_fetching
from samzapy.system.kafka import queue as kafka_queues

pytestmark = pytest.mark.kafka

#: The questions that go to a broker.
QUESTIONS = ("create_topics", "describe_configs", "describe_topics", "list_offsets", "list_topics")


class Counting:
    """A real client of librdkafka; counts the calls of its methods."""

    def __init__(self, client, calls):
        self._client = client
        self._calls = calls

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if name not in QUESTIONS:
            return method
        self._calls[name] += 1
        return method


@pytest.fixture
def calls(monkeypatch):
    """The calls of all clients that are made during the test, by name."""
    made = Counter()
    make_client = kafka_clients.make_client

    def counting(kind, properties, client_errors):
        # The driver looks at the job's owner once a second: whether it has looked by the end is a matter of time.
        if not properties["client.id"].endswith(("-owner-consumer", "-checks-consumer", "-checks-admin")):
            made["clients"] += 1
        return Counting(make_client(kind, properties, client_errors), made)

    for module in (kafka_admins, kafka_fetching, kafka_queues):
        monkeypatch.setattr(module, "make_client", counting)
    return made


class Putting(StreamTask, InitableTask):
    names = ()

    def init(self, context):
        self._stores = [context.get_store(name) for name in self.names]

    def process(self, envelope, collector, coordinator):
        for store in self._stores:
            store.put("k", envelope.message)


def job(kafka, name, stores, folder):
    keys = {
        "job.name": name,
        "job.default.system": "kafka",
        "systems.kafka.samza.factory": "kafka",
        "systems.kafka.consumer.bootstrap.servers": kafka,
        "systems.kafka.default.stream.samza.msg.serde": "string",
        "systems.kafka.default.stream.samza.offset.default": "oldest",
        "task.class": f"{__name__}:Putting",
        "task.inputs": f"kafka.{name}-in",
        "job.logged.store.base.dir": str(folder),
    }
    Putting.names = [f"s{number}" for number in range(stores)]
    for number in range(stores):
        keys |= {
            f"stores.s{number}.factory": "rocksdb",
            f"stores.s{number}.key.serde": "string",
            f"stores.s{number}.msg.serde": "string",
            f"stores.s{number}.changelog": f"kafka.{name}-s{number}",
        }
    return load_job(keys)


def start(config, calls):
    """Run the job to the end of its inputs; the questions until then."""
    calls.clear()
    outcome = LocalRunner().run(prepare(config, until_end=True), RunOptions())
    return outcome, Counter(calls)


@pytest.mark.parametrize(
    "again", [pytest.param(False, marks=pytest.mark.slow), True], ids=["the first start", "a later start"]
)
def test_a_start_asks_no_more_for_more_stores_and_partitions(
    kafka, kafka_settings, kafka_admin, unique_topic, calls, tmp_path, again
):
    asked = {}
    for stores, partitions in ((1, 1), (6, 3)):
        name = unique_topic(f"{stores}")[-60:].strip("-")
        kafka_admin.create(StreamSpec(f"{name}-in", partitions))
        config = job(kafka, name, stores, tmp_path / name)
        write = partial(_write, kafka_settings, f"{name}-in", partitions)
        write()
        outcome, asked[stores] = start(config, calls)
        assert outcome.status.processed == partitions
        if again:
            write()
            outcome, asked[stores] = start(config, calls)
            assert outcome.status.processed == partitions
    few, many = (sum(asked[number][name] for name in QUESTIONS) for number in asked)
    # A busy broker is asked again, and a restore asks for each of a few topics. A first start looks at its new topics
    # until they have leaders, which takes the longer the more there are.
    assert many <= few + (20 if again else 40)
    assert many <= 120
    assert asked[1]["clients"] == asked[6]["clients"]


def _write(settings, stream, partitions):
    producer = system_factory(settings).producer(settings, "writer")
    producer.send([OutgoingRecord(stream, b"k", b"v", number) for number in range(partitions)])
    producer.flush()
    producer.close()
