"""A standby follows a changelog of transactions, committed and aborted ones, on the systems that are not in memory."""

import shutil
import threading
import uuid

import pytest
from system_under_test import SystemUnderTest, polls
from systems import SYSTEMS

from samzapy import InitableTask, StreamTask
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.standby import StandbyContainer
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import SamzapyError
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

KEYS = 30


class CountUntilTold(StreamTask, InitableTask):
    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        if envelope.message == b"fail":
            raise ValueError("told to")
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)
        coordinator.commit()


#: Long with a real broker.
KAFKA = pytest.param(*SYSTEMS["kafka"].values, id="kafka", marks=[pytest.mark.kafka, pytest.mark.slow])


@pytest.fixture(params=[SYSTEMS["local"], KAFKA])
def system(request):
    system = SystemUnderTest(request.param(request))
    yield system
    system.close()


@pytest.fixture
def config(system, tmp_path):
    name, stream = system.settings.name, f"copied-{uuid.uuid4().hex[:8]}"
    system.admin.create(StreamSpec(stream, 1))
    given = {
        "job.name": stream,
        "job.default.system": name,
        "job.logged.store.base.dir": str(tmp_path / "state"),
        "job.standbytasks.replication.factor": "2",
        "task.class": f"{__name__}:CountUntilTold",
        "task.inputs": stream,
        "task.guarantee": "exactly-once",
        "task.commit.ms": "1000",
        f"systems.{name}.samza.factory": system.settings.factory,
        f"systems.{name}.default.stream.samza.offset.default": "oldest",
        "stores.counts.factory": "rocksdb",
        "stores.counts.key.serde": "bytes",
        "stores.counts.msg.serde": "integer",
        "stores.counts.changelog": f"{stream}-changelog",
    }
    parts = (
        ("consumer.", system.settings.consumer),
        ("producer.", system.settings.producer),
        ("", system.settings.properties),
    )
    for prefix, values in parts:
        given |= {f"systems.{name}.{prefix}{key}": value for key, value in values.items()}
    return load_job(given)


def write(system, config, *values):
    producer = system.producer()
    records = [OutgoingRecord(config.name, b"k%d" % (n % KEYS), value, 0) for n, value in enumerate(values)]
    producer.send(records)
    producer.flush()


def run(config):
    return LocalRunner().run(prepare(config, until_end=True), RunOptions()).status.restored


def test_a_copy_ends_where_the_committed_transactions_do(system, config, tmp_path):
    write(system, config, *[b"1"] * 2 * KEYS)
    run(config)
    model = prepare(config).model
    coordinator = Coordinator(config.name, JobSpec(model, {}), 60.0)
    standby = StandbyContainer(config, model.container("0-1"), LocalLease(coordinator, "0-1"), check_s=0.1)
    thread = threading.Thread(target=standby.run, daemon=True)
    thread.start()
    write(system, config, *[b"1"] * KEYS, b"fail")
    with pytest.raises(SamzapyError, match="told to"):
        run(config)
    changelog = system.ssp(f"{config.name}-changelog")

    def caught_up():
        report = standby.report("")
        return thread.is_alive() and report.positions.get(str(changelog), 0) >= system.upcoming(changelog) > KEYS

    for _ in polls(system.reader((system.ssp(config.name), 0)), caught_up):
        pass
    standby.stop()
    thread.join(60)
    assert not thread.is_alive()
    shutil.rmtree(tmp_path / "state" / f"{config.name}-1" / "counts" / "Partition_0")
    with pytest.raises(SamzapyError, match="told to"):
        run(config)
    found = {}
    reader = system.reader((changelog, 0))
    for batches in polls(reader, lambda: reader.position(changelog) >= system.upcoming(changelog)):
        for batch in batches:
            found |= zip(batch.keys, (int.from_bytes(value, "big") for value in batch.values), strict=True)
    assert set(found.values()) == {3}
    assert not list((tmp_path / "state" / f"{config.name}-1" / "counts").glob("*.standby-1"))
