"""The job that a test gets: it keeps the mistakes of the file, and nothing that reaches beyond the test."""

from __future__ import annotations

import socket

from tested_tasks import JOB, Counting

from samzapy.testing import TaskTestDriver, TestRunner, job

KAFKA = {
    **JOB,
    "systems.sys.samza.factory": "kafka",
    "systems.sys.consumer.bootstrap.servers": "nowhere:9092",
    "systems.sys.producer.bootstrap.servers": "nowhere:9092",
}


def test_an_address_and_files_that_only_the_deployment_has_are_not_needed():
    without_address = {key: value for key, value in KAFKA.items() if "bootstrap" not in key}
    secured = {"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"}
    config = without_address | {f"systems.sys.consumer.{key}": value for key, value in secured.items()}
    with TaskTestDriver(Counting, config) as driver:
        driver.send("in", "x", "a")
        assert driver.outputs("out").pairs == [("a", 1)]


def test_a_run_listens_on_no_port(monkeypatch):
    bound, bind = [], socket.socket.bind

    def noted(self, address):
        bound.append(address)
        return bind(self, address)

    monkeypatch.setattr(socket.socket, "bind", noted)
    ports = {"metrics.prometheus.port": "39413", "job.page.port": "0", "job.query.enabled": "true"}
    run = TestRunner.of(Counting).with_config(JOB | ports).with_input("in", [("a", 1)]).run()
    assert run.store("counts") == {"a": 1}
    assert bound == []


def test_metrics_stay_in_the_test(tmp_path):
    keys = {
        "metrics.reporters": "told, shown, exported",
        "metrics.reporter.told.class": "log",
        "metrics.reporter.shown.class": "snapshot",
        "metrics.reporter.shown.stream": "sys.metrics",
        "metrics.reporter.exported.class": "otel",
    }
    found = job.tested_job(Counting, JOB | keys, None, tmp_path)
    assert [each.name for each in found.metrics_reporters] == ["told", "shown"]


def test_a_stall_does_not_end_the_process_of_the_test(tmp_path):
    assert not job.tested_job(Counting, JOB | {"task.stall.policy": "fail"}, None, tmp_path).supervision.stall_fails
