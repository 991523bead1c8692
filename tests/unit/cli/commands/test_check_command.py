"""`samzapy check` on a job that is right."""

import sys
from pathlib import Path

import pytest

JOB = """\
job.name=views
task.class=tasks_of_check:Idle
task.inputs=local.in
systems.local.samza.factory=local
systems.local.samza.msg.serde=json
job.container.count=2
stores.s.factory=rocksdb
stores.s.key.serde=string
stores.s.msg.serde=json
stores.s.changelog=local.s-changes
my.password=hunter2
"""
TASKS = """\
from samzapy.api.task import SideInputsProcessor
from samzapy.api.task import CopartitionedTask, StreamTask
from samzapy.operators.persistent import NonWindowState, PersistentTask, Sum

class Idle(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass

class Joining(Idle, CopartitionedTask):
    pass

class Rates(SideInputsProcessor):
    def process(self, envelope, store):
        return ()

class Adding(PersistentTask):
    def persistent_state(self):
        return NonWindowState(Sum())

    def process_message(self, state, envelope):
        pass
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "tasks_of_check", raising=False)
    (tmp_path / "tasks_of_check.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "job.properties").write_text(JOB)
    return "job.properties"


def test_the_job_and_its_model_are_shown(samzapy, job, tmp_path):
    samzapy("topic", "create", "local.in", "--partitions", "3")
    code, output, errors = samzapy("check", job)
    assert (code, errors) == (0, "")
    assert "task class     tasks_of_check:Idle\n" in output
    assert "Job model (3 tasks in 2 containers)" in output
    assert "  0          Partition 2  local.in[2]\n" in output
    assert "hunter2" not in output
    (tmp_path / "rules").write_bytes(b"\xff")
    assert samzapy("check", job, "--production", "--rules", "rules")[::2] == (2, "")


def test_a_system_that_does_not_answer_leaves_the_model_out_with_a_warning(samzapy, job):
    Path(".samzapy").mkdir()
    Path(".samzapy/local.db").write_bytes(b"this is not a database, but long enough to be read as one" * 20)
    code, output, errors = samzapy("check", job)
    assert code == 0
    assert errors.startswith("warning: the job model is left out: ")
    assert "Job model" not in output


BY_PATTERN = ("--config", "task.inputs=local.in.*")


def test_the_streams_that_match_a_regular_expression_are_shown_with_those_left_out(samzapy, job):
    for stream in ("in-eu", "in-us", "in-letters"):
        samzapy("topic", "create", f"local.{stream}", "--partitions", "2")
    letters = ("task.error.process.policy=dead-letter", "task.dead.letter.stream=local.in-letters")
    options = [part for key in letters for part in ("--config", key)]
    code, output, errors = samzapy("check", job, *BY_PATTERN, *options)
    assert (code, errors) == (0, "")
    assert "inputs         local.in.*\n" in output
    assert "new inputs     at a start\n" in output
    assert "  local.in.*  local.in-eu       input\n" in output
    assert "  local.in.*  local.in-us       input\n" in output
    assert "local.in-letters  left out: task.dead.letter.stream names it\n" in output
    assert "  1          Partition 1  local.in-eu[1], local.in-us[1]\n" in output


def test_a_regular_expression_that_matches_nothing_is_a_problem_unless_the_job_looks_again(samzapy, job):
    samzapy("topic", "create", "local.other", "--partitions", "2")
    code, _, errors = samzapy("check", job, *BY_PATTERN)
    assert code == 2
    assert "task.inputs: matches no stream of system 'local' now; create one first" in errors
    code, output, errors = samzapy("check", job, *BY_PATTERN, "--config", "job.inputs.refresh.ms=30s")
    assert code == 0
    assert "new inputs     at a start, and every 30,000 ms\n" in output
    assert "the job model is left out: the job waits until a stream matches local.in.*" in errors


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["task.chooser.class=no.such:Chooser"], "task.chooser.class: "),
        (["stores.t.factory=timers"], "task.class: Idle must be a TimerTask"),
        (["task.class=tasks_of_check:Adding"], "stores.s.factory: Adding keeps a state of its own"),
        (
            [
                "stores.s.changelog=",
                "stores.s.side.inputs=local.rates",
                "stores.s.side.inputs.processor.factory=no.such:Processor",
            ],
            "stores.s.side.inputs.processor",
        ),
        (
            ["job.spark.conf.spark.archives=missing.tar.gz#env"],
            "job.spark.conf.spark.archives: file not found, got 'missing.tar.gz#env'",
        ),
        (["systems.local.synchronous=maybe"], "systems.local.synchronous: "),
    ],
)
def test_what_a_start_refuses_without_any_system_is_refused_offline(samzapy, job, keys, told):
    code, output, errors = samzapy("check", job, "--offline", *(part for key in keys for part in ("--config", key)))
    assert (code, output) == (2, "")
    assert f"error: {told}" in errors


def test_sparks_own_defaults_count_as_in_a_run(samzapy, job, tmp_path, monkeypatch):
    samzapy("topic", "create", "local.in", "--partitions", "3")
    (tmp_path / "spark-defaults.conf").write_text("spark.task.cpus 2\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    code, _, errors = samzapy("check", job, "--config", "job.spark.master=local[2,4]")
    assert code == 2, errors
    assert errors.startswith("error: job.spark.master: 2 endless containers need 2 slots, local[2,4] has 1")


def test_a_job_with_all_its_state_in_memory_needs_no_executors_for_standbys(samzapy, job):
    samzapy("topic", "create", "local.in", "--partitions", "3")
    twice = ("--config", "job.standbytasks.replication.factor=2", "--config", "job.spark.master=local[2,4]")
    code, _, errors = samzapy("check", job, *twice)
    assert (code, "standby containers need a second executor" in errors) == (2, True), errors
    code, _, errors = samzapy("check", job, *twice, "--config", "stores.s.factory=inmemory")
    assert code == 0, errors
    assert "warning: job.standbytasks.replication.factor: no standbys, since they keep copies" in errors
