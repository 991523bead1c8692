"""Failures of a local run in its status and its metrics."""

import logging
import uuid

import pytest

from samzapy import StreamTask
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.coordinator.views import job_series
from samzapy.errors import TaskFailed
from samzapy.metrics.registry import as_text
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory


class Failing(StreamTask):
    def process(self, envelope, collector, coordinator):
        if envelope.message == b"bad":
            raise ValueError("this is bad")


class Runs:
    def __init__(self, *messages, **keys):
        self.config = load_job(
            {
                "job.name": "fails",
                "task.class": f"{__name__}:Failing",
                "task.inputs": "sys.in",
                "systems.sys.samza.factory": "memory",
                "systems.sys.cluster": uuid.uuid4().hex,
                "systems.sys.default.stream.samza.offset.default": "oldest",
                **keys,
            }
        )
        settings = self.config.systems["sys"]
        factory = system_factory(settings)
        factory.admin(settings, "test").create(StreamSpec("in", 1))
        producer = factory.producer(settings, "test")
        producer.send([OutgoingRecord("in", b"k", message, 0) for message in messages])
        producer.flush()
        self.seen = []

    def run(self):
        LocalRunner().run(prepare(self.config, until_end=True), RunOptions(on_status=self.seen.append))

    @property
    def metrics(self):
        text = as_text(job_series(self.seen[-1])).decode()
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_a_failure_that_ends_the_run_is_in_the_last_status_with_its_traceback_and_in_the_metrics(caplog):
    runs = Runs(b"good", b"bad")
    with caplog.at_level(logging.ERROR), pytest.raises(TaskFailed):
        runs.run()
    (failure,) = runs.seen[-1].failures
    assert (failure.error, failure.container_id) == ("TaskFailed", "0")
    assert failure.user.exception == "ValueError"
    assert failure.user.where == "process of sys.in[0]@1"
    assert "this is bad" in failure.user.traceback
    assert runs.metrics['samzapy_job_failures_total{job="fails"}'] == "1.0"
    assert caplog.text.count("Traceback") == 1, "the container has logged it already"


def test_a_failure_that_a_policy_deals_with_is_counted_by_what_it_did():
    runs = Runs(b"good", b"bad", **{"task.error.process.policy": "skip"})
    runs.run()
    counted = [
        name for name, value in runs.metrics.items() if name.startswith("samzapy_errors_total") and value != "0.0"
    ]
    assert len(counted) == 1
    assert 'action="skipped"' in counted[0]
    assert 'stage="process"' in counted[0]
    assert runs.metrics['samzapy_job_failures_total{job="fails"}'] == "0.0"
