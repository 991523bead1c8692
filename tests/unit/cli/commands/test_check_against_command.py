"""`samzapy check --against running`: what a start would find changed."""

import sys

import pytest
from rigs.pipeline_rig import Surroundings, counting

import samzapy as library
from samzapy.pipeline import Pipeline

MODULE = "pipelines_of_check"


@pytest.fixture
def check(samzapy, tmp_path, monkeypatch):
    """Checks a pipeline of the module against what a run of `counting("views", 2)` has stored."""
    monkeypatch.chdir(tmp_path)
    pipeline = counting("views", 2)
    around = Surroundings(pipeline, {"views-in": 2, "views-out": 1})
    around.write("views-in", [{"page": "a"}, {"page": "b"}])
    library.run(pipeline, runner="local", until_end=True, progress=False)

    def checked(edited, *options):
        module = type(sys)(MODULE)
        module.pipeline = edited
        monkeypatch.setitem(sys.modules, MODULE, module)
        return samzapy("check", f"{MODULE}:pipeline", "--against", "running", *options)

    return checked


def lines(output):
    """The words of the table of changes, without the spaces between the columns."""
    table = output.partition("\n\n")[0].splitlines()
    return [" ".join(line.split()) for line in table[1:]]


def test_an_unchanged_pipeline_has_no_changes(check):
    code, output, _ = check(counting("views", 2))
    assert (code, lines(output)) == (0, ["none"])
    assert output.startswith("Changes since the run started at 20")


def test_lost_and_new_steps_and_streams_are_shown(check):
    pipeline = Pipeline("views")
    pipeline.stream("shop.views-in").key_by(lambda view: view["page"], name="pages").count(name="totals")
    code, output, errors = check(pipeline)
    assert (code, errors) == (0, "")
    assert lines(output)[1:] == [
        "step by-page-count aggregate Count nothing reads its state, which stays in its changelog",
        "step totals aggregate Count starts without state",
        "stream shop.views-by-page input not read any more: what it holds beyond the commit stays there",
        "stream shop.views-pages between steps new to the job",
    ]


def test_a_step_of_another_meaning_is_refused_before_a_start(check):
    pipeline = Pipeline("views")
    keyed = pipeline.stream("shop.views-in").key_by(lambda view: view["page"])
    keyed.reduce(lambda before, now: now, name="by-page-count")
    code, _, errors = check(pipeline)
    assert code == 2
    assert "step 'by-page-count': was 'aggregate Count', which it would read: give the new step another name" in errors


def test_stores_of_a_task_are_compared_by_their_serdes(check):
    code, output, errors = check(counting("views", 2), "-c", "stores.by-page-count.msg.serde=string")
    assert code == 2
    assert lines(output)[1].startswith("store by-page-count string, json string, string in which its state is written:")
    assert "store 'by-page-count': was 'string, json', in which its state is written" in errors


def test_a_job_that_never_ran_has_no_changes(check):
    pipeline = counting("other", 2)
    Surroundings(pipeline, {"other-in": 1, "other-out": 1})
    code, output, _ = check(pipeline)
    assert code == 0
    assert output.startswith("Changes: no earlier run of this job\n  none\n")


def test_against_needs_the_systems(check):
    code, _, errors = check(counting("views", 2), "--offline")
    assert code == 2
    assert "leave out --offline" in errors


TASK = """\
from samzapy import StreamTask

class Idle(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass
"""
JOB = """\
job.name=idle
task.class=idle_of_check:Idle
task.inputs=local.in
systems.local.samza.factory=local
stores.{store}.factory=rocksdb
stores.{store}.key.serde=string
stores.{store}.msg.serde=json
stores.{store}.changelog=local.{store}-changes
"""


def test_stores_of_a_task_that_are_lost_and_new_are_shown(samzapy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "idle_of_check.py").write_text(TASK)
    samzapy("topic", "create", "local.in", "--partitions", "1")
    for store in ("old", "new"):
        (tmp_path / f"{store}.properties").write_text(JOB.format(store=store))
    assert samzapy("run", "old.properties", "--runner", "local", "--until-end")[0] == 0
    code, output, errors = samzapy("check", "new.properties", "--against", "running")
    assert (code, errors) == (0, "")
    assert lines(output)[1:] == [
        "store new string, json starts empty if its changelog is empty",
        "store old string, json nothing reads it; its changelog stays",
    ]
