"""Replays of tasks with callbacks, sinks, timers, windows and snapshots."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from kinds_of_tasks import RecordedSink
from replayed_job import BASE_MS, JOB

from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import EnvironmentFailure

WITHOUT_STORE = JOB[: JOB.index("stores.counts")]


@pytest.fixture
def make(new_job):
    """Makes a job of one of the tasks, with an input and an output."""
    return lambda task, text=JOB, **keys: new_job("in", "out", text=text, task__class=f"kinds_of_tasks:{task}", **keys)


def replayed(steps):
    return [(output.key, output.message) for step in steps for output in step.outputs]


def test_a_callback_that_fails_ends_the_replay_at_its_message(make):
    job = make("CallbackTask")
    job.send([("/a", {}), ("/b", {}), ("/a", {"bad": 1}), ("/a", {})])
    assert job.run() is not None
    steps, after, replay = job.replay(3, start="0", from_empty=True)
    assert [step.at for step in steps] == [f"local.in[0]@{n}" for n in (0, 1, 2)]
    assert [each.exception for each in steps[-1].failures] == ["KeyError"]
    assert after == {"/a": 1, "/b": 1}
    assert replay.failure is not None


def test_a_sink_is_never_opened(make):
    job = make("SinkTask", WITHOUT_STORE)
    job.send([("/a", {})] * 3)
    assert job.run() is None
    assert "open" in RecordedSink.calls
    RecordedSink.calls.clear()
    steps, _, _ = job.replay_only(2)
    assert len(steps) == 3
    assert RecordedSink.calls == []


def test_timers_fire_where_they_have_fired(make):
    job = make(
        "ReminderTask", WITHOUT_STORE, stores__timers__factory="timers", stores__timers__changelog="local.timers-log"
    )
    job.send([("/a", {}, 0), ("/b", {"commit": True}, 1), ("/c", {}, 2.5), ("/d", {}, 10)])
    # One message a slice, or the wall clock of the run would be that of many.
    steps, _, _ = job.replay_only(3, start="0", from_empty=True)
    assert [(step.at, replayed([step])) for step in steps] == [
        ("local.in[0]@0", []),
        ("local.in[0]@1", []),
        ("windows and timers", [("/a", BASE_MS + 2_000)]),
        ("local.in[0]@2", [("/a", BASE_MS + 2_000)]),
        ("windows and timers", [("/b", BASE_MS + 3_000)]),
        ("windows and timers", [("/c", BASE_MS + 4_500)]),
        ("local.in[0]@3", [("/b", BASE_MS + 3_000), ("/c", BASE_MS + 4_500)]),
    ]


def test_state_comes_from_a_snapshot_where_the_changelog_has_lost_its_beginning(tmp_path, new_job):
    place = tmp_path / "snapshots"
    job = new_job("in", "out", stores__counts__backup__path=f"file://{place}", stores__counts__backup__interval__ms="0")
    for pages in (["/a", "/b"], ["/a", "/c"], ["/a", "/d"]):
        job.send([(page, {}) for page in pages])
        assert job.run() is None
    ssp = SystemStreamPartition("local", "counts-log", 0)
    files = sorted(map(str, Path(place).rglob("*")))
    assert any("index" in each for each in files)
    job.admin.delete_records(ssp, 2)
    state = job.state(5)
    assert state == Counter(["/a", "/b", "/a", "/c"])
    steps, after, _ = job.replay(5)
    assert [step.at for step in steps] == ["local.in[0]@4", "local.in[0]@5"]
    assert after == Counter(["/a", "/b", "/a", "/c", "/a", "/d"])
    assert sorted(map(str, Path(place).rglob("*"))) == files, "no snapshot is made"
    with pytest.raises(EnvironmentFailure, match="begins at offset 2"):
        job.state(3)
    shutil.rmtree(place)
    with pytest.raises(EnvironmentFailure, match="begins at offset 2") as refused:
        job.state(5)
    assert str(refused.value).endswith(
        "choose a later offset, or replay from empty stores with --from-empty --from OFFSET"
    )
    assert "delete" not in str(refused.value).partition("; ")[2], (
        "a replay must not advise to delete a job's checkpoints"
    )


@pytest.mark.parametrize("others", [0, 9])
def test_a_changelog_that_was_made_again_is_refused_with_the_way_out_of_a_replay(job, others):
    job.send([("/a", {}), ("/b", {"commit": True}), ("/c", {})])
    assert job.run() is None
    job.admin.delete("counts-log")
    job.create("counts-log")
    job.send([("/x", {})] * others, "counts-log")
    with pytest.raises(EnvironmentFailure, match=r"store 'counts': .*was deleted or created again") as refused:
        job.state(2)
    assert str(refused.value).endswith(
        "choose a later offset, or replay from empty stores with --from-empty --from OFFSET"
    )
