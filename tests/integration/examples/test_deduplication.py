"""The deduplication of orders while its process is killed: on the embedded system, and on a real Kafka."""

import json
import threading
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.examples.gallery.load import repeated_orders
from samzapy.verify.processes import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

JOB = Path(__file__).parents[3] / "configs" / "unique-orders.properties"


@pytest.fixture(params=["local", pytest.param("kafka", marks=pytest.mark.kafka)])
def keys(request, tmp_path, unique_topic):
    """The keys of the job on that system, with streams that no other test has."""
    orders, unique, log = (unique_topic(name)[-60:].strip("-_") for name in ("orders", "unique", "log"))
    keys = {
        "job.name": f"{orders}-job",
        "job.logged.store.base.dir": str(tmp_path / "state"),
        "task.inputs": f"events.{orders}",
        "task.commit.ms": "200",
        "unique.orders.output": f"events.{unique}",
        "streams.unique-orders.samza.physical.name": unique,
        "unique.orders.remembered": "500",
        "stores.deduplication.changelog": f"events.{log}",
        f"streams.{unique}.samza.system": "events",
        f"streams.{unique}.samza.msg.type": "samzapy.examples.gallery.unique_orders:Order",
    }
    if request.param == "local":
        return keys | {"systems.events.path": str(tmp_path / "local.db")}
    return keys | {
        "systems.events.samza.factory": "kafka",
        "systems.events.consumer.bootstrap.servers": request.getfixturevalue("kafka"),
        "systems.events.default.stream.replication.factor": "1",
    }


def test_repeated_orders_come_out_once_though_the_job_is_killed(keys, tmp_path):
    job = load_job(JOB, keys)
    streams = Streams(job.systems["events"])
    orders, unique, log = (
        keys[key].removeprefix("events.")
        for key in ("task.inputs", "unique.orders.output", "stores.deduplication.changelog")
    )
    for stream in (orders, unique):
        streams.admin.create(StreamSpec(stream, 2))
    arrived = [(event.key.encode(), json.dumps(event.value).encode()) for event in repeated_orders(6_000)]
    distinct = dict(arrived)
    assert len(arrived) > 1.1 * len(distinct)
    pause = threading.Event()

    def feed():
        rest = iter(arrived)
        with closing(streams.producer()) as producer:
            while batch := list(islice(rest, 50)):
                producer.send([OutgoingRecord(orders, *pair) for pair in batch])
                producer.flush()
                pause.wait(0.05)

    def came():
        return [pair for batch in streams.read(unique) for pair in zip(batch.keys, batch.values, strict=True)]

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    arguments = [f"--config={key}={value}" for key, value in keys.items()]
    for share in (0.2, 0.4, 0.6, 1.0):
        process = JobProcess(tmp_path, str(JOB), "--runner", "local", *arguments)
        try:
            until(lambda: len(came()) >= share * len(distinct), lambda: process.errors)  # noqa: B023
        finally:
            process.kill()
    feeder.join()
    passed = [(key, json.loads(value)) for key, value in came()]
    assert sorted(passed, key=str) == sorted(((key, json.loads(value)) for key, value in distinct.items()), key=str)
    assert sum(key.startswith(b"key/") for partition in streams.replay(log) for key in partition) == 2 * 500
