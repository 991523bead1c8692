"""A keyed count whose input grows from 2 to 4 partitions between two runs, on every system and in two guarantees."""

import uuid
from collections import Counter
from functools import partial

import pytest
from rigs.kafka_cluster import grow_topic
from system_under_test import SystemUnderTest
from systems import SYSTEMS

from samzapy import InitableTask, StreamTask
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.base import partition_of

KEYS = [f"k{number}".encode() for number in range(40)]


class CountByKey(StreamTask, InitableTask):
    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)


#: Long with a real broker.
KAFKA = pytest.param(*SYSTEMS["kafka"].values, id="kafka", marks=[pytest.mark.kafka, pytest.mark.slow])


@pytest.fixture(params=[SYSTEMS["memory"], SYSTEMS["local"], KAFKA])
def system(request):
    system = SystemUnderTest(request.param(request))
    yield system
    system.close()


@pytest.fixture
def stream():
    return f"grown-{uuid.uuid4().hex[:8]}"


def job(system, stream, tmp_path, guarantee="at-least-once", *, store=True):
    settings = system.settings
    given = {
        "job.name": stream,
        "job.default.system": settings.name,
        "job.logged.store.base.dir": str(tmp_path / "state"),
        "task.class": f"{__name__}:{'CountByKey' if store else 'Ignoring'}",
        "task.inputs": stream,
        "task.guarantee": guarantee,
        "task.commit.ms": "1000",
        f"systems.{settings.name}.samza.factory": settings.factory,
        f"systems.{settings.name}.default.stream.samza.offset.default": "upcoming",
        f"systems.{settings.name}.default.stream.samza.key.serde": "bytes",
    }
    if store:
        given |= {
            "stores.counts.factory": "rocksdb",
            "stores.counts.key.serde": "bytes",
            "stores.counts.msg.serde": "integer",
            "stores.counts.changelog": f"{stream}-changelog",
        }
    for prefix, values in (
        ("consumer.", settings.consumer),
        ("producer.", settings.producer),
        ("", settings.properties),
    ):
        given |= {f"systems.{settings.name}.{prefix}{key}": value for key, value in values.items()}
    return load_job(given)


def write(system, stream, partitions, rounds=1):
    producer = system.producer()
    producer.send(
        [OutgoingRecord(stream, key, b"1", partition_of(key, partitions)) for _ in range(rounds) for key in KEYS]
    )
    producer.flush()


def run(config):
    prepared = prepare(config, until_end=True)
    return prepared, LocalRunner().run(prepared, RunOptions()).status


def changelog(system, stream, partitions):
    """The counts by partition, as the changelog tells them."""
    name, found = f"{stream}-changelog", {}
    for partition in range(partitions):
        ssp = SystemStreamPartition(system.name, name, partition)
        upcoming, reader = system.upcoming(ssp), system.reader((ssp, 0))
        counts = found.setdefault(partition, {})
        while reader.position(ssp) < upcoming:
            for batch in reader.poll(1.0, 1_000):
                counts |= {
                    key: int.from_bytes(value, "big") for key, value in zip(batch.keys, batch.values, strict=True)
                }
    return found


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_every_key_counts_on_where_its_state_is_and_nothing_is_skipped(system, stream, tmp_path, guarantee):
    system.admin.create(StreamSpec(stream, 2))
    config = job(system, stream, tmp_path, guarantee)
    assert run(config)[1].processed == 0  # stands at `upcoming` from here on
    write(system, stream, 2, rounds=2)
    run(config)
    own = system.name == "kafka" and partial(grow_topic, system.settings.consumer["bootstrap.servers"])
    (own or system.admin.grow)(stream, 4)
    write(system, stream, 4, rounds=3)
    prepared, status = run(config)
    assert status.processed == 3 * len(KEYS)
    assert [task.name for task in prepared.model.tasks] == ["Partition 0", "Partition 1"]
    assert any("has grown from 2 to 4 partitions" in warning for warning in prepared.warnings)
    found = changelog(system, stream, 2)
    assert Counter(key for counts in found.values() for key in counts) == Counter(KEYS)
    assert {count for counts in found.values() for count in counts.values()} == {5}
    assert all(partition_of(key, 2) == partition for partition, counts in found.items() for key in counts)
    assert run(config)[1].processed == 0


@pytest.mark.parametrize("system", [SYSTEMS["memory"], SYSTEMS["local"]], indirect=True)
def test_a_growth_to_no_multiple_is_refused_and_one_to_a_multiple_goes_on(system, stream, tmp_path):
    system.admin.create(StreamSpec(stream, 2))
    config = job(system, stream, tmp_path)
    run(config)
    system.admin.grow(stream, 3)
    with pytest.raises(
        EnvironmentFailure, match=f"{stream} has 3 partitions, the job's state is by 2: expected 2 or a"
    ):
        prepare(config)
    with pytest.raises(ConfigError, match="cannot shrink: it has 3"):
        system.admin.grow(stream, 1)
    system.admin.grow(stream, 6)
    write(system, stream, 6)
    assert run(config)[1].processed == len(KEYS)
