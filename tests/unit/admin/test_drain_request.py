"""A drain as it is asked for from outside: beside the checkpoints, for the run that was started last."""

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from samzapy import DrainListenerTask, StreamTask
from samzapy.admin.running import ask_to_drain, wait_for_drain
from samzapy.api.checkpoint import JobRecord, JobRun
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.managers import TopicCheckpointManager
from samzapy.checkpoint.records import write_owner
from samzapy.cli.main import cli
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import Ownership
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import JobFailed, RetriableError, SamzapyError, Unreachable
from samzapy.runner.base import RunOptions
from samzapy.runner.driver import watching
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import job_clients, system_factory


class Drained(StreamTask, DrainListenerTask):
    log: ClassVar[list] = []
    processed = threading.Event()

    def process(self, envelope, collector, coordinator):
        self.log.append(envelope.offset)
        self.processed.set()

    def on_drain(self, collector, coordinator):
        self.log.append("drain")


def no_wait(_):
    pytest.fail("nothing is to be waited for")


@pytest.fixture
def config(tmp_path):
    Drained.log.clear()
    Drained.processed.clear()
    config = load_job(
        {
            "job.name": "drained",
            "job.default.system": "sys",
            "systems.sys.samza.factory": "local",
            "systems.sys.path": str(tmp_path / "local.db"),
            "systems.sys.default.stream.samza.offset.default": "oldest",
            "task.class": f"{__name__}:Drained",
            "task.inputs": "sys.in",
            "job.spark.lease.ms": "1500",
        }
    )
    settings = config.systems["sys"]
    system_factory(settings).admin(settings, "test").create(StreamSpec("in", 1))
    producer = system_factory(settings).producer(settings, "test")
    producer.send([OutgoingRecord("in", b"k", b"v", 0) for _ in range(3)])
    producer.flush()
    return config


def owned(config, owner):
    """Write another run down as the owner; returns what was asked of it, later."""
    clients = job_clients(config, "test")
    checkpoints = manager_for(config, clients)
    checkpoints.start()
    write_owner(checkpoints, owner)
    return checkpoints


def test_a_running_job_hears_of_the_request_drains_and_ends(config):
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(LocalRunner().run(prepare(config), RunOptions())), daemon=True
    )
    thread.start()
    assert Drained.processed.wait(30)
    run = ask_to_drain(config)
    assert wait_for_drain(config, run, 30.0, threading.Event().wait)
    thread.join(30)
    (outcome,) = outcomes
    assert (outcome.stopped, outcome.status.draining, outcome.status.processed) == (False, True, 3)
    assert Drained.log == [0, 1, 2, "drain"]


def fail(config, prepared, meanwhile=lambda: None):
    """The run fails, after something else has happened."""
    coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, run_id=prepared.run_id), 3.0)
    with watching(prepared, coordinator, RunOptions()):
        meanwhile()
        raise JobFailed("container 0 has failed")


def test_a_run_that_fails_in_a_process_that_lives_on_is_not_waited_for(config):
    prepared = prepare(config)
    run = ask_to_drain(config)
    with pytest.raises(JobFailed):
        fail(config, prepared)
    with pytest.raises(SamzapyError, match=r"ended without draining: it has failed$"):
        wait_for_drain(config, run, 60.0, no_wait)


def test_the_request_is_for_the_run_that_was_asked_and_for_no_later_one(config):
    prepared = prepare(config)
    ask_to_drain(config)
    later = prepare(config)
    coordinators = [
        Coordinator(config.name, JobSpec(each.model, config.raw, run_id=each.run_id), 3.0) for each in (prepared, later)
    ]
    with closing(job_clients(config, "test")) as clients:
        asked = manager_for(config, clients).read_record(JobRecord.DRAIN).newest
    assert asked == {"run": prepared.run_id}
    assert later.run_id != prepared.run_id
    assert not any(each.status().draining for each in coordinators)


def test_a_request_to_an_earlier_run_does_not_drain_the_next(config):
    checkpoints = owned(config, JobRun("next", 1, "here", 1))
    with closing(checkpoints), closing(Ownership.of(config, "next")) as ownership:
        ownership.poll()
        assert not ownership.asked_to_drain()
        for asked, drains in (("earlier", False), ("next", True)):
            checkpoints.write_record(JobRecord.DRAIN, {"run": asked})
            assert ownership.asked_to_drain() is drains


FAR = JobRun("far", 1_700_000_000_000, "elsewhere", 42)
DRAINED = {"run": "far", "drained": True}


@pytest.mark.parametrize("failure", [RetriableError("the leader is away"), Unreachable("no answer")])
def test_the_end_is_waited_for_while_a_broker_does_not_answer(config, monkeypatch, failure):
    away = []

    def read_record(self, record, *, wait=True):
        if not away and record is JobRecord.OWNER:
            away.append(self)
            raise failure
        return found(self, record, wait=wait)

    found = TopicCheckpointManager.read_record
    monkeypatch.setattr(TopicCheckpointManager, "read_record", read_record)
    with closing(owned(config, FAR)) as checkpoints:
        assert wait_for_drain(config, FAR, 60.0, lambda _: checkpoints.write_record(JobRecord.ENDED, DRAINED))
        away.clear()
        with pytest.raises(type(failure)):
            wait_for_drain(config, FAR, 0.0, no_wait)


def test_a_run_that_has_ended_without_draining_is_not_called_drained(config):
    with closing(owned(config, FAR)) as checkpoints:
        checkpoints.write_record(JobRecord.ENDED, {"run": "far", "drained": False})
        with pytest.raises(SamzapyError, match="has ended without draining: it was stopped, or has") as refused:
            wait_for_drain(config, FAR, 60.0, no_wait)
    assert refused.value.exit_code == 1


@pytest.mark.parametrize("age", ["new", "old"])
def test_a_process_that_starts_its_job_again_is_asked_to_drain_again(config, age):
    first = JobRun("first", 1, "elsewhere", 42, **({"born": 7, "boot": "b"} if age == "new" else {}))
    with closing(owned(config, first)) as checkpoints:
        checkpoints.write_record(JobRecord.ENDED, {"run": "first", "again": True})
        write_owner(checkpoints, replace(first, id="second"))

        def drain(_):
            assert checkpoints.read_record(JobRecord.DRAIN).newest == {"run": "second"}
            checkpoints.write_record(JobRecord.ENDED, {"run": "second", "drained": True})

        assert wait_for_drain(config, first, 60.0, drain)


def test_the_command_says_whom_it_has_asked_and_fails_where_nobody_runs(config, tmp_path):
    job = tmp_path / "job.properties"
    job.write_text("".join(f"{key}={value}\n" for key, value in config.raw.items()))
    refused = CliRunner().invoke(cli, ["drain", str(job)])
    assert (refused.exit_code, refused.stderr) == (
        3,
        "error: job drained (id 1): no run is active, so there is nothing to drain\n",
    )
    prepare(config)
    asked = CliRunner().invoke(cli, ["drain", str(Path(job)), "--no-wait"])
    assert asked.exit_code == 0
    assert asked.stderr.startswith("asked the run started at ")
