"""Typed messages in the workers of Spark: a msgspec Struct in a module beside the job file, for a task of each kind."""

import json

import pytest
from rigs.job_process import JobProcess
from rigs.numbered_stream import Streams, settings_of

from samzapy.api.system import OutgoingRecord, StreamSpec

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(240)]

CODE = """
import operator
from collections import Counter

from msgspec import Struct

from samzapy import BatchTask, InitableTask, StreamTask, SystemStream

OUT = SystemStream("local", "out")


class View(Struct, rename="camel", tag=True):
    user_name: str
    page: str = "/"


class Seen(Struct, frozen=True):
    times: int

    def __add__(self, other):
        return Seen(self.times + other.times)


class Messages(StreamTask[str, View], InitableTask):
    def init(self, context):
        self.seen = context.get_store("seen")

    def process(self, envelope, collector, coordinator):
        view = envelope.message
        assert type(view) is View
        self.seen.put(view.page, (self.seen.get(view.page) or Seen(0)) + Seen(1))
        collector.send_message(OUT, View(view.user_name.upper(), view.page), envelope.key)


class Batches(BatchTask[str, View], InitableTask):
    def init(self, context):
        self.seen = context.get_store("seen")

    def process_batch(self, batch, collector, coordinator):
        assert set(map(type, batch.messages)) == {View}
        pages = Counter(view.page for view in batch.messages)
        self.seen.merge_all({page: Seen(count) for page, count in pages.items()}, operator.add)
        views = [View(view.user_name.upper(), view.page) for view in batch.messages]
        collector.send_batch(OUT, batch.keys, views, inputs=batch.offsets)
"""
JOB = {
    "job.name": "typed",
    "job.default.system": "local",
    "task.inputs": "local.in",
    "task.guarantee": "exactly-once",
    "task.error.deserialize.policy": "skip",
    "systems.local.samza.factory": "local",
    "systems.local.path": "local.db",
    "systems.local.default.stream.samza.offset.default": "oldest",
    "systems.local.default.stream.samza.key.serde": "string",
    "systems.local.default.stream.samza.msg.serde": "json",
    "streams.out.samza.msg.type": "views:View",
    "stores.seen.factory": "rocksdb",
    "stores.seen.key.serde": "string",
    "stores.seen.msg.serde": "json",
    "stores.seen.msg.type": "views:Seen",
    "stores.seen.changelog": "local.seen-changelog",
}


@pytest.mark.parametrize("task", ["Messages", "Batches"])
def test_a_struct_beside_the_job_file_is_what_executors_decode_to(tmp_path, task):
    (tmp_path / "views.py").write_text(CODE)
    job = JOB | {"task.class": f"views:{task}"}
    (tmp_path / "job.properties").write_text("".join(f"{key}={value}\n" for key, value in job.items()))
    streams = Streams(settings_of({**job, "systems.local.path": f"{tmp_path}/local.db"}, "local"))
    for stream in ("in", "out"):
        streams.admin.create(StreamSpec(stream, 2))
    texts = [b'{"type":"View","userName":"u%d","page":"/%d"}' % (n, n % 3) for n in range(30)]
    texts[7] = b'{"type":"View","userName":7}'
    producer = streams.producer()
    producer.send([OutgoingRecord("in", b"k%d" % (n % 5), text) for n, text in enumerate(texts)])
    producer.flush()
    producer.close()
    run = JobProcess(tmp_path, "job.properties", "--py-files", "views.py", "--master", "local[1]", "--until-end")
    try:
        assert run.wait(170) == 0, run.errors
    finally:
        run.close()
    sent = [json.loads(value) for batch in streams.read("out") for value in batch.values]
    users = sorted(each["userName"] for each in sent)
    assert users == sorted(f"U{n}" for n in range(30) if n != 7)
    assert {each["type"] for each in sent} == {"View"}
    seen = [json.loads(value)["times"] for part in streams.replay("seen-changelog") for value in part.values()]
    assert sum(seen) == 29
