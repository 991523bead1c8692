"""A run that hands its job over to the next one, both in this process, on the memory system."""

import threading
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from rigs.side_by_side import DEADLINE_S, PARTITIONS, NumbersScene, Run

from samzapy import OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.checkpoint import JobRecord, JobRun
from samzapy.api.system import StreamSpec
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.records import read_owner
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import HandoverRequest, this_run
from samzapy.errors import JobFailed, JobTakenOver, RestoreError
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.runner import handover
from samzapy.runner.base import RunOptions
from samzapy.runner.handover import Handover
from samzapy.runner.launch import launch
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare, preparing
from samzapy.system.clients import job_clients
from samzapy.testing import ManualClock

REFRESHED = {"task.inputs": "sys.in.*", "job.inputs.refresh.ms": "100"}


class Echo(StreamTask):
    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), envelope.message, key=envelope.key))


class Unable(Echo):
    def init(self, context):
        raise ValueError("no init")


class Scene(NumbersScene):
    def __init__(self, **keys):
        # Only a stop commits.
        commits = {"task.commit.ms": "600000", "task.guarantee": "at-least-once"}
        super().__init__("handed", f"{__name__}:Echo", **commits, **keys)

    def start(self, safe=False, **keys):
        """Start the job as the command does."""
        config = load_job(self.flat | keys)

        def start(options):
            return launch(config, LocalRunner(), replace(options, safe=safe), threading.Lock(), until_end=False)

        return Run(start)

    def record(self, record):
        config = load_job(self.flat)
        with closing(job_clients(config, "test")) as clients, closing(manager_for(config, clients)) as checkpoints:
            return checkpoints.read_record(record).newest


@pytest.fixture(autouse=True)
def _nothing_armed():
    yield
    disarm()


def begun(**keys):
    scene = Scene(**keys)
    scene.send(100)
    first = scene.start()
    first.processed(100)
    return scene, first


def end(scene, run):
    """Hand the job over to a run that ends at the ends of the inputs."""
    with preparing(load_job(scene.flat), until_end=True) as job:
        LocalRunner().run(job, RunOptions())
    assert run.join() is None


@pytest.mark.parametrize("safe", [False, True])
def test_the_run_before_commits_and_ends_well_and_the_next_one_repeats_nothing(safe):
    scene, first = begun()
    second = scene.start(safe)
    assert first.join() is None
    assert first.outcome.stopped
    assert ("polled" in scene.record(JobRecord.RECEIVED)) == safe
    assert any("has taken over: every task commits" in line for line in first.events)
    scene.send(50)
    second.processed(50)
    end(scene, second)
    assert scene.outputs() == Counter(range(150))


def test_a_safe_handover_to_a_run_that_fails_in_init_goes_back():
    scene, first = begun()
    second = scene.start(safe=True, **{"task.class": f"{__name__}:Unable"})
    assert "no init" in str(second.join())
    scene.send(150)
    first.processed(150)
    assert any("failed before its first poll" in line for line in first.events)
    end(scene, first)
    assert scene.outputs() == Counter(range(250))


def test_without_a_handover_the_run_before_is_fenced():
    scene, first = begun()
    second = scene.start(**{"job.handover.ms": "0"})
    assert isinstance(first.join(), JobTakenOver)
    second.processed(100)
    end(scene, second)
    assert set(scene.outputs()) == set(range(100))


def test_a_new_run_that_dies_before_it_asks_for_the_job_costs_the_run_before_nothing():
    scene, first = begun()
    arm("handover.3")
    assert isinstance(scene.start().join(), FailPointReached)
    scene.send(100)
    first.processed(200)
    assert scene.record(JobRecord.RECEIVED)["run"] == scene.record(JobRecord.HANDOVER)["run"]
    end(scene, first)


@pytest.mark.parametrize("point", ["handover.4", "handover.7"])
def test_a_new_run_that_dies_after_that_leaves_a_job_that_the_next_start_continues(point, monkeypatch):
    monkeypatch.setattr(handover, "_CLAIMED_S", 0.5)
    scene, first = begun()
    arm(point)
    assert isinstance(scene.start().join(), FailPointReached)
    failure = first.join()
    if point == "handover.4":
        assert isinstance(failure, JobFailed)
        assert "start the job again" in str(failure)
    else:
        assert failure is None
    scene.send(50)
    LocalRunner().run(prepare(load_job(scene.flat), until_end=True), RunOptions())
    assert scene.outputs() == Counter(range(150))


@pytest.mark.parametrize("point", ["handover.5", pytest.param("handover.6", marks=pytest.mark.slow)])
def test_a_run_before_that_dies_on_the_way_is_replaced_all_the_same(point, monkeypatch):
    scene, first = begun(**{"job.handover.ms": "60000"})
    arm(point)
    with monkeypatch.context() as patch:
        # The process of the first run goes on, since it is that of the second, too.
        patch.setattr("samzapy.runner.prepare.may_answer", lambda _: first.goes_on)
        second = scene.start()
        assert isinstance(first.join(), FailPointReached)
        scene.send(50)
        second.processed(50)
    end(scene, second)
    assert set(scene.outputs()) == set(range(150))


def test_a_run_that_starts_again_for_a_new_input_hands_the_job_over():
    scene = Scene(**REFRESHED)
    scene.send(100)
    runs, claimed = [scene.start()], threading.Event()
    runs[0].processed(100)

    def start(_):
        runs.append(scene.start())
        assert claimed.wait(DEADLINE_S)

    arm("inputs.3", action=start)
    arm("handover.7", action=lambda _: claimed.set())
    scene.admin.create(StreamSpec("in-2", PARTITIONS))
    assert runs[0].join() is None
    first, second = runs
    assert sum("is a new input" in line for line in first.events) == 1
    assert sum("has taken over" in line for line in first.events) == 1
    assert first.outcome.stopped
    scene.send(50)
    second.processed(50)
    end(scene, second)
    assert scene.outputs() == Counter(range(150))


def test_a_request_survives_being_written_down_and_a_broken_one_is_refused():
    request = HandoverRequest("5f0c", this_run(), go=True)
    again = HandoverRequest.from_json(request.to_json())
    assert (again.run, again.go, again.by) == ("5f0c", True, request.by)
    with pytest.raises(RestoreError, match="record of a handover cannot be read"):
        HandoverRequest.from_json({"run": "5f0c", "by": {"run": "x"}})
    assert HandoverRequest("a", JobRun("b", 1, "h", 2)) != request


@pytest.mark.parametrize("answer", ["none", "to another new run", "of an earlier run", "its own"])
def test_only_the_answer_of_the_run_before_to_this_run_counts(answer):
    scene, clock = Scene(), ManualClock()
    config = load_job(scene.flat)
    before, mine, other = prepare(config).run_id, this_run(), this_run()
    with closing(job_clients(config, "test")) as clients, closing(manager_for(config, clients)) as checkpoints:
        owner = read_owner(checkpoints)
        heard = {
            "to another new run": {"run": before, "by": other.id},
            "of an earlier run": {"run": other.id, "by": mine.id},
            "its own": {"run": before, "by": mine.id},
        }
        if answer in heard:
            checkpoints.write_record(JobRecord.RECEIVED, heard[answer])
    request = HandoverRequest(before, mine)
    asking = Handover(config, owner, request, clock, wait=clock.advance, goes_on=lambda run: True)
    asking.begin()
    assert not asking.complete()  # it never lets go
    asking.close()
    assert scene.record(JobRecord.HANDOVER)["go"] == (answer == "its own")
