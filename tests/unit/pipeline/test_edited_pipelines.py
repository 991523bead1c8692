"""A start says which steps have lost or gained their state, and refuses a step that would read another's."""

import pytest

from samzapy.errors import StoreError
from samzapy.pipeline import Pipeline
from samzapy.testing.pipeline import PipelineDriver


def counted(name):
    pipeline = Pipeline("edited")
    pipeline.stream("shop.in").count(name=name).to("shop.out")
    return pipeline


def reduced(name):
    pipeline = Pipeline("edited")
    pipeline.stream("shop.in").reduce(lambda before, now: before + now, name=name).to("shop.out")
    return pipeline


def edit(monkeypatch, before, after):
    """A job with the first pipeline, then a start with the other."""
    with PipelineDriver(before, after.plan.keys({}), partitions=2) as driver:
        driver.send("in", 1, key="a")
        monkeypatch.setattr(before.task, "plan", after.plan)
        driver.restart()


def test_a_renamed_step_is_reported_once_as_lost_and_new(monkeypatch, caplog):
    edit(monkeypatch, counted("visits"), counted("views"))
    lines = [record.getMessage() for record in caplog.records if record.name == "samzapy.pipeline.task"]
    lost, gained = lines
    assert lost.startswith("Step 'visits' (aggregate Count) of earlier runs is not in the pipeline: nothing reads its")
    assert gained == "Step 'views' (aggregate Count) is new: it starts without state"


def test_a_step_of_another_meaning_under_a_known_name_is_refused(monkeypatch):
    with pytest.raises(StoreError, match=r"step 'views' was .*; give the new step another name with name=\.\.\."):
        edit(monkeypatch, counted("views"), reduced("views"))


def alarmed(name):
    pipeline = Pipeline("edited")
    wait, ring = (lambda _, handle: handle.schedule(handle.time_ms + 5_000)), (lambda handle: handle.send("late"))
    pipeline.stream("shop.in").process(wait, on_timer=ring, name=name).to("shop.out")
    return pipeline


def test_timers_of_a_step_that_is_gone_are_dropped(monkeypatch):
    before, after = alarmed("old"), alarmed("new")
    with PipelineDriver(before, after.plan.keys(before.plan.keys({}))) as driver:
        driver.send("in", 1, key="a", timestamp=1_700_000_000_000)
        monkeypatch.setattr(before.task, "plan", after.plan)
        driver.restart()
        for second in (60, 70):
            driver.send("in", 1, key=str(second), timestamp=1_700_000_000_000 + second * 1000)
        assert driver.outputs("out").pairs == [("60", "late")]


def test_an_unchanged_pipeline_reports_nothing(monkeypatch, caplog):
    edit(monkeypatch, counted("views"), counted("views"))
    assert not [record for record in caplog.records if record.name == "samzapy.pipeline.task"]
