"""Jobs over messages with registered schemas: on the embedded system from end to end, and what ends a start."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from contextlib import closing

import pytest
from jobs import schema_job as jobs
from rigs.schema_registry import schema_registry

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, SerdeError, Unreachable
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare, preparing
from samzapy.serializers import StreamSerdes, serde_registry, task_serdes
from samzapy.system.clients import system_factory
from samzapy.testing import TaskTestDriver

PLAIN = {"user": "ann", "amount": 3}


@pytest.fixture
def server():
    with schema_registry() as found:
        yield found


class Scene:
    """A job that reads `events.orders`, on the embedded system in a folder."""

    def __init__(self, folder, url, **more):
        self.keys = {
            "job.name": "totals",
            "job.default.system": "events",
            "job.logged.store.base.dir": str(folder / "state"),
            "task.class": "jobs.schema_job:TotalsTask",
            "task.inputs": "events.orders",
            "systems.events.samza.factory": "local",
            "systems.events.path": str(folder / "local.db"),
            "systems.events.default.stream.samza.key.serde": "string",
            "systems.events.default.stream.samza.msg.serde": "avro",
            "systems.events.default.stream.samza.offset.default": "oldest",
            "streams.totals.samza.system": "events",
            "stores.totals.factory": "rocksdb",
            "stores.totals.key.serde": "string",
            "stores.totals.msg.serde": "avro",
            "stores.totals.changelog": "events.totals-changelog",
            **jobs.registry_keys("avro", url, jobs.AVRO, auto_register="true"),
            **more,
        }
        self.settings = SystemSettings("events", "", properties={"path": self.keys["systems.events.path"]})
        self.factory = system_factory(load_job(self.keys).systems["events"])
        with closing(self.factory.admin(self.settings, "test")) as admin:
            for stream in ("orders", "totals", "letters"):
                admin.create(StreamSpec(stream, 1))

    def send(self, *values):
        with closing(self.factory.producer(self.settings, "test")) as producer:
            producer.send([OutgoingRecord("orders", b"ann", value, 0) for value in values])
            producer.flush()

    def order(self, **more):
        return self.serde("orders").to_bytes({**PLAIN, **more})

    def serde(self, stream):
        return serde_registry(self.keys)["avro"].at(stream, "value")

    def run(self):
        with preparing(load_job(self.keys), until_end=True) as job:
            LocalRunner().run(job, RunOptions())

    def values(self, stream):
        ssp = SystemStreamPartition("events", stream, 0)
        with closing(self.factory.admin(self.settings, "test")) as admin:
            end = admin.offsets([ssp])[ssp].upcoming
        found = []
        with closing(self.factory.consumer(self.settings, "test")) as consumer:
            consumer.start({ssp: 0})
            while consumer.position(ssp) < end:
                for batch in consumer.poll(1.0, 100):
                    found += batch.values
        return found


def test_a_job_reads_writes_and_keeps_values_of_a_schema(tmp_path, server):
    scene = Scene(tmp_path, server.url)
    scene.send(scene.order(), scene.order(amount=4))
    scene.run()
    totals = [scene.serde("totals").from_bytes(value) for value in scene.values("totals")]
    assert totals == [{"user": "ann", "amount": 3}, {"user": "ann", "amount": 7}]
    assert sorted(server.subjects) == ["orders-value", "totals-changelog-value", "totals-value"]


def test_a_message_without_the_frame_becomes_a_dead_letter(tmp_path, server):
    scene = Scene(
        tmp_path,
        server.url,
        **{"task.error.deserialize.policy": "dead-letter", "task.dead.letter.stream": "events.letters"},
    )
    scene.send(scene.order(), b'{"user": "ann"}', b"\0\0\0\0\x63\0", scene.order(amount=4))
    scene.run()
    assert scene.values("letters") == [b'{"user": "ann"}', b"\0\0\0\0\x63\0"]
    assert len(scene.values("totals")) == 2


def test_a_registry_that_is_down_at_the_start_is_an_environment_failure(tmp_path):
    with schema_registry() as server:
        url = server.url
    with pytest.raises(Unreachable, match=r"schema registry http://127.0.0.1:\d+: does not answer") as caught:
        prepare(load_job(Scene(tmp_path, url).keys))
    assert caught.value.exit_code == 3


def test_a_schema_that_is_not_registered_ends_the_start_with_every_place(tmp_path, server):
    scene = Scene(tmp_path, server.url, **{"serializers.registry.avro.auto.register": "false"})
    with pytest.raises(ConfigError) as caught:
        prepare(load_job(scene.keys))
    assert "events.totals" in str(caught.value)
    assert "has no schema like the job's" in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_stream_that_only_fills_a_store_needs_no_schema_to_write_with(tmp_path, server):
    side = {"stores.side.factory": "inmemory", "stores.side.side.inputs": "events.orders"}
    side |= {"stores.side.side.inputs.processor.factory": "jobs.schema_job:Any"}
    side |= {"stores.side.key.serde": "string", "stores.side.msg.serde": "json"}
    keys = {**Scene(tmp_path, server.url).keys, **side, "task.inputs": "events.others"}
    del keys["serializers.registry.avro.schema"], keys["streams.totals.samza.system"]
    config = load_job(keys)
    assert SystemStream("events", "orders") in config.streams
    StreamSerdes(config, task_serdes(config), jobs.TotalsTask).make_ready()


def test_a_task_is_tested_with_the_mock_registry_and_its_own_classes():
    keys = {
        "job.name": "typed",
        "task.class": "jobs.schema_job:TypedTask",
        "task.inputs": "events.orders",
        "systems.events.samza.factory": "memory",
        "systems.events.default.stream.samza.key.serde": "string",
        "systems.events.default.stream.samza.msg.serde": "avro",
        "streams.totals.samza.system": "events",
        "streams.totals.samza.msg.type": "jobs.schema_job:Order",
        **jobs.registry_keys("avro", "mock://a-test", jobs.AVRO, auto_register="true"),
    }
    with TaskTestDriver(None, keys) as driver:
        driver.send("events.orders", jobs.Order("ann", 3), key="ann")
        assert driver.outputs("totals").messages == [jobs.Order("ann", 4)]


def test_a_missing_library_is_reported_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    for name in [each for each in sys.modules if each.startswith("samzapy.serializers.schemas.avro")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError, match=r"serde avro needs fastavro.*; install it: pip install 'samzapy\[schema\]'"):
        serde_registry(jobs.registry_keys("avro", "mock://x"))["avro"]
    monkeypatch.undo()
    importlib.import_module("samzapy.serializers.schemas.avro")


def test_a_job_without_schemas_imports_none_of_their_libraries():
    code = (
        "import sys, samzapy.serializers, samzapy.runner.prepare; print({'fastavro', 'jsonschema'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_checked_as_the_null_that_is_written(number):
    schema = {
        "title": "Mean",
        "type": "object",
        "properties": {"mean": {"type": "number"}, "most": {"type": ["number", "null"]}},
    }
    keys = jobs.registry_keys("json-schema", f"mock://numbers-{number}", schema, auto_register="true")
    made = serde_registry(keys)["json-schema"].at("out", "value")
    with pytest.raises(SerdeError, match=r"json-schema serde: .*\$\.mean: None is not of type 'number'"):
        made.to_bytes({"mean": number})
    assert made.from_bytes(made.to_bytes({"mean": 1.5, "most": number})) == {"mean": 1.5, "most": None}
