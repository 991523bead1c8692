from __future__ import annotations

from pathlib import Path

import orjson

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.bench.events import load_events
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

JOB = Path(__file__).parents[3] / "configs" / "page-views.properties"
VIEWS, COUNTS = SystemStream("events", "page-views"), "page-view-counts"


def test_each_view_is_counted_and_counts_go_on_in_the_next_run(tmp_path):
    job = load_job(
        JOB, {"systems.events.path": str(tmp_path / "local.db"), "job.logged.store.base.dir": str(tmp_path / "state")}
    )
    settings = job.systems["events"]
    factory = system_factory(settings)
    factory.admin(settings, "test").create(StreamSpec(COUNTS, 1))
    for views in ([b"/home", b"/docs", b"/home"], [b"/home"]):
        load_events(settings, VIEWS, [(page, b'{"user":"ann"}') for page in views])
        LocalRunner().run(prepare(job, until_end=True), RunOptions())
    counts = SystemStreamPartition("events", COUNTS, 0)
    consumer = factory.consumer(settings, "test")
    consumer.register(counts, 0)
    consumer.start()
    sent = [orjson.loads(value) for batch in consumer.poll(10.0, 100) for value in batch.values]
    consumer.close()
    assert [each["views"] for each in sent if each["page"] == "/home"] == [1, 2, 3]
    assert [each["views"] for each in sent if each["page"] == "/docs"] == [1]
