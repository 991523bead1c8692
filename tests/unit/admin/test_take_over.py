"""Two runs of one job side by side, as two drivers would be, on the memory system and in this process."""

from collections import Counter
from dataclasses import replace

import pytest
from rigs.in_between import first
from rigs.side_by_side import NumbersScene, Run

from samzapy import OutgoingMessageEnvelope, StreamTask, SystemStream, WindowableTask
from samzapy.admin import positions, take_over
from samzapy.admin.positions import Move, move_positions, read_positions
from samzapy.admin.running import NO_DRIVER
from samzapy.api.checkpoint import CheckpointManager
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.records import Target, read_owner, write_owner
from samzapy.config.loader import load_job
from samzapy.container.outputs.producers import transactional_id
from samzapy.container.supervision.job_records import Ownership, open_job, this_run
from samzapy.errors import JobTakenOver, ProducerFenced
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import job_clients

GUARANTEES = [
    pytest.param("at-most-once", marks=pytest.mark.slow),
    pytest.param("at-least-once", marks=pytest.mark.slow),
    pytest.param("effectively-once", marks=pytest.mark.slow),
    "exactly-once",
]


class Echo(StreamTask, WindowableTask):
    """Its window makes that there is something to commit at all times."""

    def window(self, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "beats"), b"beat"))

    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(SystemStream("sys", "out"), envelope.message, key=envelope.key))


class Scene(NumbersScene):
    def __init__(self, guarantee, **keys):
        quick = {"task.commit.ms": "50", "task.window.ms": "50"}
        super().__init__("twice", f"{__name__}:Echo", **{"task.guarantee": guarantee, **quick, **keys})
        self.admin.create(StreamSpec("beats", 1))

    def prepare(self, **options):
        return prepare(load_job(self.flat), **options)


def started(prepared):
    return Run(lambda options: LocalRunner().run(prepared, options))


def test_a_takeover_by_a_command_names_no_process():
    assert str(JobTakenOver.by("twice", 0, "host", NO_DRIVER)) == (
        "a command that changes the state of job 'twice' (started at 1970-01-01T00:00:00+00:00 on host) has taken over"
    )


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_second_start_takes_the_job_over_and_the_first_ends_for_good(guarantee):
    scene = Scene(guarantee)
    scene.send(100)
    first = started(scene.prepare())
    first.committed(100)
    second = started(scene.prepare())
    failure = first.join()
    assert isinstance(failure, JobTakenOver)
    assert failure.exit_code == 1
    assert str(failure).startswith("another run of job 'twice' (started at ")
    assert str(failure).endswith(" has taken over")
    scene.send(100)
    second.committed(100)
    third = started(scene.prepare(until_end=True))
    assert third.join() is None
    assert isinstance(second.join(), JobTakenOver)
    assert scene.outputs() == Counter(range(200))


def test_a_run_that_restarts_after_it_was_fenced_does_not_fence_its_successor_for_ever():
    scene = Scene("exactly-once")
    first = started(scene.prepare())
    second = started(scene.prepare())
    # Both have work at all times, so each fence is noticed at once.
    for _ in range(5):
        scene.send(20)
    second.committed(1)
    assert isinstance(first.join(), JobTakenOver)
    assert started(scene.prepare(until_end=True)).join() is None
    assert scene.outputs() == Counter(range(100))


def test_a_container_that_starts_for_a_run_that_is_no_longer_the_owner_lets_go_before_it_restores():
    scene = Scene("exactly-once")
    scene.send(10)
    outdated = scene.prepare(until_end=True)
    scene.prepare(until_end=True)
    with pytest.raises(JobTakenOver, match="another run of job 'twice'"):
        LocalRunner().run(outdated, RunOptions())
    assert scene.outputs() == Counter()


def test_a_run_that_starts_between_the_look_and_the_record_of_another_is_fenced_by_it(monkeypatch):
    scene = Scene("exactly-once", **{"job.container.count": "1"})
    scene.prepare()
    wide = load_job(scene.flat | {"job.container.count": "2"})
    overlapping, clients = [], job_clients(wide, "test")
    producer = clients.transactional("sys", transactional_id(wide.job_name, "1"))

    def another():
        overlapping.append(prepare(wide))
        producer.init_transactions()

    first(monkeypatch, take_over, "write_owner", another)
    newest = scene.prepare()
    producer.begin()
    producer.send([OutgoingRecord("out", b"k", b"1", 0)])
    with pytest.raises(ProducerFenced):
        producer.commit()
    assert newest.epoch > overlapping[0].epoch
    checkpoints = manager_for(wide, clients)
    owner = read_owner(checkpoints)
    assert (owner.id, owner.transactional_ids) == (newest.run_id, (transactional_id(wide.job_name, "0"),))
    checkpoints.close()
    producer.close()
    clients.close()


def test_a_run_behind_whose_record_another_stands_has_lost_the_job(monkeypatch):
    scene = Scene("exactly-once")
    scene.prepare()
    newer = []
    first(monkeypatch, take_over, "fence", lambda: newer.append(scene.prepare()))
    with pytest.raises(JobTakenOver, match="another run of job 'twice'"):
        scene.prepare()
    config = load_job(scene.flat)
    with open_job(config, "test") as (_, checkpoints):
        assert read_owner(checkpoints).id == newer[0].run_id


def test_the_owner_is_the_newest_start_and_a_container_of_no_run_has_none():
    scene = Scene("at-least-once")
    config = load_job(scene.flat)
    run_id = scene.prepare().run_id
    clients = job_clients(config, "test")
    checkpoints: CheckpointManager = manager_for(config, clients)
    Ownership.of(config, run_id).check(checkpoints)
    Ownership.of(config, None).check(checkpoints)
    newer = this_run()
    write_owner(checkpoints, newer)
    with pytest.raises(JobTakenOver, match=f"on {newer.host}, pid {newer.pid}"):
        Ownership.of(config, run_id).check(checkpoints)
    Ownership.of(config, newer.id).check(checkpoints)
    Ownership.of(config, None).check(checkpoints)
    checkpoints.close()
    clients.close()


def test_without_checkpoints_every_run_starts_at_the_defaults_and_nobody_owns_the_job():
    scene = Scene("at-least-once", **{"task.checkpoint.factory": "none"})
    scene.send(10)
    for _ in range(2):
        assert started(scene.prepare(until_end=True)).join() is None
    assert scene.outputs() == Counter(dict.fromkeys(range(10), 2))
    assert not [name for name in scene.admin.list_streams() if "checkpoint" in name]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_move_into_which_a_run_starts_is_refused(guarantee, monkeypatch):
    scene = Scene(guarantee)
    scene.send(10)
    assert started(scene.prepare(until_end=True)).join() is None
    config, model = load_job(scene.flat), scene.prepare().model
    with open_job(config, "test") as (_, checkpoints):
        # This process goes on, the run in it has ended.
        write_owner(checkpoints, replace(read_owner(checkpoints), pid=NO_DRIVER))
    first(monkeypatch, positions, "write_checkpoints", scene.prepare)
    with pytest.raises(JobTakenOver, match="another run of job 'twice'"):
        move_positions(config, model, Move(Target("oldest")), lambda _: None)
    assert {
        at for item in read_positions(config, model).checkpoints.values() for at in item.input_offsets.values()
    } != {0}
