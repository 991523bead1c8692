"""Changes of the inputs of a job: new streams for its patterns, new partitions, and streams that are created again."""

import threading
from functools import partial

import pytest
from jobs.memory_job import Calls, CountingTask, MemoryJob

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import StreamSpec, SystemTraits
from samzapy.api.task import SideInputsProcessor
from samzapy.config.loader import load_job
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.runner import driver
from samzapy.runner.base import RunOptions
from samzapy.runner.driver import InputsWatch, coordinator_of, watching
from samzapy.runner.launch import launch, launch_once
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.runner.stopping import StopSwitch
from samzapy.system.local.factory import MemoryCluster

REFRESH = {"job.inputs.refresh.ms": "100", "job.spark.lease.ms": "3000", "task.commit.ms": "600000"}


class SeeingTask(CountingTask):
    """Counts, and notes each input's stream."""

    calls = Calls()

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        self.calls.append(("saw", envelope.ssp.stream, envelope.message["id"]))


class Run:
    """A local run of a job in a thread of its own."""

    def __init__(self, config):
        self.events = Calls()
        self._switch = StopSwitch()
        self.outcome = self.error = None
        self._thread = threading.Thread(target=self._run, args=(config,), daemon=True)
        self._thread.start()

    def _run(self, config):
        options = RunOptions(on_event=lambda line: self.events.append((line,)), stop=self._switch)
        try:
            self.outcome = launch(config, LocalRunner(), options, threading.Lock(), until_end=False)
        except Exception as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def stop(self):
        self._switch.ask()
        return self.end()

    def end(self):
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.outcome

    def heard(self, part):
        return [line for (line,) in self.events if part in line]


@pytest.fixture
def job(tmp_path):
    return MemoryJob(tmp_path, task=SeeingTask, **{"task.inputs": "mem.in.*"})


def unsaid(job):
    """The job without a word about where its inputs start."""
    return {key: value for key, value in job.flat.items() if not key.endswith("offset.default")}


def numbered(ids, partition=0, key="a"):
    return [(partition, key, {"id": each}) for each in ids]


def test_a_start_reads_every_stream_that_matches(job):
    job.admin.create(StreamSpec("in-2", 2))
    job.send(*numbered([1]))
    job.send(*numbered([2]), stream="in-2")
    config = load_job(job.flat)
    prepared = prepare(config)
    assert prepared.config.task.inputs == (SystemStream("mem", "in"), SystemStream("mem", "in-2"))
    assert prepared.model.tasks[0].ssps == {SystemStreamPartition("mem", each, 0) for each in ("in", "in-2")}


def test_a_pattern_that_matches_nothing_is_refused_before_anything_is_written(job):
    with pytest.raises(
        ConfigError, match=r"^task\.inputs: matches no stream of system 'mem' now; create one first, got"
    ):
        prepare(load_job(job.flat | {"task.inputs": "mem.orders-.*"}))
    assert job.admin.list_streams() == ["in", "out"]


def test_a_new_stream_is_read_from_its_first_record_and_everything_else_goes_on_from_its_position(job):
    run = Run(load_job(unsaid(job) | REFRESH | {"systems.mem.streams.in.samza.offset.default": "oldest"}))
    job.task.calls.wait_for(("init",), 2)
    job.send(*numbered([1, 2]))
    job.task.calls.wait_for(("saw", "in"), 2)
    job.admin.create(StreamSpec("in-2", 2))
    job.send(*numbered([4, 5]), stream="in-2")
    job.task.calls.wait_for(("saw", "in-2"), 2)
    job.send(*numbered([6]))
    job.task.calls.wait_for(("saw", "in"), 3)
    outcome = run.stop()
    assert (outcome.stopped, outcome.restart) == (True, None)
    assert run.heard("is a new input") == ["mem.in-2 is a new input: every task commits, and the job starts again"]
    seen = [call[1:] for call in job.task.calls if call[0] == "saw"]
    assert sorted(seen) == [("in", 1), ("in", 2), ("in", 6), ("in-2", 4), ("in-2", 5)]
    assert job.changelog() == {"a": 5}


def test_a_stream_that_came_while_the_job_was_down_is_read_from_its_first_record(job):
    flat = unsaid(job)
    job.send(*numbered([1]))
    run = Run(load_job(flat))
    job.task.calls.wait_for(("init",), 2)
    run.stop()
    job.admin.create(StreamSpec("in-2", 2))
    job.send(*numbered([2]), stream="in-2")
    run = Run(load_job(flat))
    job.task.calls.wait_for(("saw", "in-2", 2), 1)
    run.stop()
    assert [call[1:] for call in job.task.calls if call[0] == "saw"] == [("in-2", 2)]


def test_a_stream_that_does_not_fit_the_state_is_announced_once_and_the_job_goes_on_without_it(job):
    run = Run(load_job(job.flat | REFRESH))
    job.task.calls.wait_for(("init",), 2)
    job.admin.create(StreamSpec("in-wide", 5))
    warning = (
        "warning: task.inputs: mem.in-wide has 5 partitions, for 5 tasks in all; the job's state is by 2: give it "
        "fewer partitions, leave it out of task.inputs, or start a new job (job.id); the job goes on without it"
    )
    run.events.wait_for((warning,), 1)
    job.admin.create(StreamSpec("in-2", 2))
    job.send(*numbered([1]), stream="in-2")
    job.send(*numbered([2]))
    job.task.calls.wait_for(("saw", "in", 2), 1)
    assert not run.heard("starts again"), "a start would refuse the stream that does not fit"
    job.admin.delete("in-wide")
    job.task.calls.wait_for(("saw", "in-2", 1), 1)
    run.stop()
    assert len(run.heard("in-wide")) == 1
    job.admin.create(StreamSpec("in-wide", 5))
    with pytest.raises(EnvironmentFailure, match=r"^task\.inputs: mem\.in-wide has 5 partitions, for 5 tasks in all"):
        prepare(load_job(job.flat))


def test_a_stream_that_goes_and_comes_back_is_read_from_its_first_record(job):
    flat = unsaid(job)
    job.admin.create(StreamSpec("in-2", 2))
    prepare(load_job(flat))
    job.admin.delete("in-2")
    prepare(load_job(flat))
    job.admin.create(StreamSpec("in-2", 2))
    late = prepare(load_job(flat)).model.tasks[0].late
    assert late == {SystemStreamPartition("mem", "in-2", 0)}


def test_a_run_that_lost_its_job_while_it_started_again_ends_well(job):
    first, events = prepare(load_job(job.flat)), []
    second = prepare(load_job(job.flat))
    arguments = (load_job(job.flat), LocalRunner(), RunOptions(on_event=events.append), threading.Lock())
    outcome = launch_once(*arguments, until_end=True, after=first.run_id)
    assert (outcome.stopped, outcome.status.containers) == (True, ())
    assert "has taken over: this run ends" in events[-1]
    assert not launch_once(*arguments, until_end=True, after=second.run_id).stopped


@pytest.mark.parametrize("inputs", ["mem.in", "mem.in.*"])
def test_an_input_that_grows_is_read_by_the_job_that_starts_again(job, inputs):
    run = Run(load_job(job.flat | REFRESH | {"task.inputs": inputs}))
    job.task.calls.wait_for(("init",), 2)
    job.admin.grow("in", 4)
    job.send(*numbered([7], partition=3))
    job.task.calls.wait_for(("saw", "in", 7), 1)
    run.stop()
    assert run.heard("has grown")[:1] == [
        "mem.in has grown from 2 to 4 partitions: every task commits, and the job starts again"
    ]


@pytest.mark.parametrize("keys", [REFRESH, {}])
def test_a_growth_that_the_state_cannot_follow_is_announced_and_the_job_goes_on(job, monkeypatch, keys):
    monkeypatch.setattr(driver, "InputsWatch", partial(InputsWatch, pace_s=0.1))
    run = Run(load_job(job.flat | keys))
    job.task.calls.wait_for(("init",), 2)
    job.admin.grow("in", 3)
    warning = (
        "warning: mem.in has grown from 2 to 3 partitions, and the job goes on without the new ones, but no start "
        "accepts them: mem.in has 3 partitions, the job's state is by 2: expected 2 or a multiple of it, which leaves "
        "every key with its task; for any other count start a new job (job.id), or delete the checkpoint topic and the "
        "changelogs"
    )
    run.events.wait_for((warning,), 1)
    job.send(*numbered([1]))
    job.task.calls.wait_for(("saw", "in", 1), 1)
    assert run.stop().stopped


def test_without_the_key_an_input_that_grows_is_announced_once(job, monkeypatch):
    monkeypatch.setattr(driver, "InputsWatch", partial(InputsWatch, pace_s=0.1))
    run = Run(load_job(job.flat))
    job.task.calls.wait_for(("init",), 2)
    job.admin.grow("in", 4)
    line = (
        "warning: mem.in has grown from 2 to 4 partitions: the next start of the job reads the new ones, from their "
        "beginning"
    )
    run.events.wait_for((line,), 1)
    job.admin.grow("in", 6)
    run.events.wait_for((line.replace("2 to 4", "4 to 6"),), 1)
    run.stop()
    assert len(run.heard("has grown")) == 2


Nothing = type("Nothing", (SideInputsProcessor,), {"process": lambda self, message, store: None})


def test_a_side_input_that_grows_and_a_changelog_that_may_lose_state_are_announced(job, monkeypatch):
    monkeypatch.setattr(driver, "InputsWatch", partial(InputsWatch, pace_s=0.1))
    monkeypatch.setattr(driver, "PACE_S", 0.1)
    job.admin.create(StreamSpec("rows", 2))
    side = {"stores.rows.factory": "memory", "stores.rows.key.serde": "string", "stores.rows.msg.serde": "json"}
    side |= {"stores.rows.side.inputs": "mem.rows"}
    side |= {"stores.rows.side.inputs.processor.factory": f"{__name__}:Nothing"}
    run = Run(load_job(job.flat | REFRESH | side))
    job.task.calls.wait_for(("init",), 2)
    job.admin.grow("rows", 3)
    log = MemoryCluster.named(job.flat["systems.mem.cluster"]).database
    with log.write():
        log.execute("UPDATE streams SET config = ? WHERE name = 'counts-changelog'", ('{"cleanup.policy": "delete"}',))
    grown = "mem.rows has grown from 2 to 3 partitions: its stores lack their rows until a start that reads them"
    lost = "changelog counts-changelog must be compact (is delete): state would be lost"
    for line in (grown, f"{lost}. This run goes on, but no start accepts it"):
        run.events.wait_for((f"warning: {line}",), 1)
    outcome = run.stop()
    assert outcome.restart is None
    assert str(outcome.status.downgrades[-1]) == f"stores.counts.changelog: {line}"


def test_a_changelog_that_grows_is_announced_once_with_the_way_back(job, monkeypatch):
    monkeypatch.setattr(driver, "PACE_S", 0.1)
    run = Run(load_job(job.flat))
    job.task.calls.wait_for(("init",), 2)
    job.admin.grow("counts-changelog", 4)
    line = (
        "warning: changelog counts-changelog has 4 partitions, job has 2 tasks; if it has grown, copy the store: "
        "samzapy store copy JOB.properties counts --to SYSTEM.STREAM. This run goes on, but no start accepts it"
    )
    run.events.wait_for((line,), 1)
    job.admin.grow("counts-changelog", 6)
    assert run.stop().stopped
    assert len(run.heard("if it has grown")) == 1


def test_an_input_that_is_created_again_stops_the_job_and_fails_the_run(job, monkeypatch):
    monkeypatch.setattr(driver, "InputsWatch", partial(InputsWatch, pace_s=0.01))
    events, prepared = Calls(), prepare(load_job(job.flat))
    coordinator = coordinator_of(prepared, JobSpec(prepared.model, prepared.config.raw, prepared.ends))
    options = RunOptions(on_event=lambda line: events.append((line[:6],)))
    failure = pytest.raises(EnvironmentFailure, match=r"mem\.in: it was deleted and created again while the job ran")
    with failure, watching(prepared, coordinator, options):
        job.admin.delete("in")
        job.admin.create(StreamSpec("in", 2))
        events.wait_for(("error:",), 1)
    assert coordinator.stopping


def test_a_system_that_lists_no_streams_is_named(job, monkeypatch):
    from samzapy.system.local.factory import MemorySystemFactory

    monkeypatch.setattr(MemorySystemFactory, "traits", lambda *_: SystemTraits(read_only=True))
    with pytest.raises(
        ConfigError, match=r"^task\.inputs: system 'mem' cannot list its streams: name them, got 'mem\.in"
    ):
        prepare(load_job(job.flat))
