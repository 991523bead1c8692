"""A replay of a slice of an input: state, outputs, changes, failures; and nothing is written."""

import json
from collections import Counter

import pytest
from replayed_job import counted

from samzapy.errors import ConfigError, EnvironmentFailure, OffsetOutOfRange, TaskFailed
from samzapy.replay.attempt import opened_replay


def page(number):
    return "/" + "abcd"[number * 7 % 4]


def messages(count, commit_every):
    return [(page(n), {"commit": n % commit_every == commit_every - 1}, n) for n in range(count)]


@pytest.fixture
def ran(job):
    """Thirty messages, with a commit after every fifth."""
    job.send(messages(30, 5))
    assert job.run() is None
    return job


@pytest.mark.parametrize("until", [0, 4, 5, 13, 19, 28, 29])
def test_the_state_before_an_offset_is_that_of_the_commit_before_it(ran, until):
    committed = until // 5 * 5
    expected = Counter(page(n) for n in range(committed))
    assert ran.state(until) == expected
    steps, after, _ = ran.replay(until)
    assert [step.at for step in steps] == [f"local.in[0]@{n}" for n in range(committed, until + 1)]
    assert after == Counter(page(n) for n in range(until + 1))


def test_a_step_has_its_message_its_outputs_and_its_changes(ran):
    (*_, step), _, _ = ran.replay(12)
    count = Counter(page(n) for n in range(13))[page(12)]
    (given,), (output,), (change,) = step.inputs, step.outputs, step.changes
    assert (given.position, given.key, given.message) == ("local.in[0]@12", page(12), {"commit": False})
    assert (output.stream, output.key, output.message) == ("local.out", page(12), count)
    assert (change.store, change.key, change.before, change.after) == ("counts", page(12), count - 1 or None, count)
    assert step.time_ms == 1_700_000_012_000
    assert json.loads(json.dumps(step.to_json()))["at"] == "local.in[0]@12"


def test_nothing_is_written(ran):
    before = ran.ends()
    ran.replay(29, start="3")
    assert ran.ends() == before
    assert ran.run() is None, "the job goes on as if there had been no replay"


def test_a_failing_message_ends_the_replay_with_its_line(job):
    job.send([*messages(12, 5), ("/a", {"bad": "this"}), ("/b", {})])
    failed = job.run()
    assert isinstance(failed, TaskFailed)
    assert "local.in[0]@12" in str(failed)
    # As the error prints it.
    steps, _, replay = job.replay("process of local.in[0]@12 failed")
    assert [step.at for step in steps] == [f"local.in[0]@{n}" for n in (10, 11, 12)]
    (failure,) = steps[-1].failures
    assert (failure.exception, failure.message, failure.where) == (
        "ValueError",
        "this is bad",
        "process of local.in[0]@12",
    )
    assert failure.at.startswith("replayed_job.py:") or "/replayed_job.py:" in failure.at
    assert steps[-1].ended
    assert isinstance(replay.failure, TaskFailed)


def test_what_an_error_policy_deals_with_is_shown_and_the_replay_goes_on(new_job):
    job = new_job(
        "in", "out", "dead", task__error__process__policy="dead-letter", task__dead__letter__stream="local.dead"
    )
    job.send([("/a", {}), ("/a", {"bad": "one"}), ("/a", {})])
    assert job.run() is None
    before = job.ends()
    steps, after, replay = job.replay("in[0]@2")
    assert [[each.message for each in step.failures] for step in steps] == [[], ["one is bad"], []]
    assert [output.stream for output in steps[1].outputs] == ["local.dead"]
    assert steps[1].changes == ()
    assert after == {"/a": 2}
    assert replay.failure is None
    assert job.ends() == before


@pytest.mark.parametrize(
    ("kind", "spans"),
    [("CountingBatches", ["local.in[0]@10 to 14"]), ("CountingCoroutine", [f"local.in[0]@{n}" for n in range(10, 15)])],
)
def test_batches_and_coroutines_are_replayed_as_in_a_container(ran, kind, spans):
    ran.config = ran.config.__class__(
        **{
            **vars(ran.config),
            "task": ran.config.task.__class__(**{**vars(ran.config.task), "task_class": f"replayed_job:{kind}"}),
        }
    )
    steps, after, _ = ran.replay(14)
    assert [step.at for step in steps] == spans
    assert after == Counter(page(n) for n in range(15))
    assert [output.key for step in steps for output in step.outputs] == [page(n) for n in range(10, 15)]


def test_windows_come_at_the_times_of_the_records(new_job):
    job = new_job("in", "out", task__class="replayed_job:WindowedCounts", task__window__ms="2000")
    job.send([("/a", {}, 0), ("/a", {}, 1), ("/a", {}, 4.5), ("/a", {}, 5)])
    steps, after, _ = job.replay("3", start="0", from_empty=True)
    assert [(step.at, step.time_ms - 1_700_000_000_000) for step in steps] == [
        ("local.in[0]@0", 0),
        ("local.in[0]@1", 1000),
        ("windows and timers", 2000),
        ("windows and timers", 4000),
        ("local.in[0]@2", 4500),
        ("local.in[0]@3", 5000),
    ]
    assert after == {"/a": 4, "windows": 2}
    job.send([("/a", {}, 100 * 365 * 86_400)])
    assert job.replay("4", start="0", from_empty=True)[1] == {"/a": 5, "windows": 2 + 1_000}


@pytest.fixture
def two(new_job):
    """Two inputs, with a commit in the middle."""
    job = new_job("in", "more", "out", task__inputs="local.in,local.more")
    job.send([("/a", {}, 1), ("/a", {}, 4)])
    job.send([("/b", {}, 2), ("/b", {}, 3)], "more")
    assert job.run() is None
    job.send([("/a", {}, 10), ("/a", {}, 12)])
    job.send([("/b", {}, 0), ("/b", {}, 11)], "more")
    assert job.run() is None
    return job


def test_several_inputs_come_by_their_times_between_two_commits(two):
    plan = two.plan("local.in[0]@3", start="local.more[0]@0")
    assert any("order across partitions is not recorded" in line for line in plan.unknown)
    steps, after, _ = two.replay("local.in[0]@3", start="local.in[0]@0")
    assert [step.at for step in steps] == [
        "local.in[0]@0",
        "local.more[0]@0",
        "local.more[0]@1",
        "local.in[0]@1",
        # The commit was here, and the record of time 0 after it.
        "local.more[0]@2",
        "local.in[0]@2",
        "local.more[0]@3",
        "local.in[0]@3",
    ]
    assert after == {"/a": 4, "/b": 4}


def test_with_several_inputs_the_place_names_its_partition(two):
    with pytest.raises(ConfigError, match=r"--until: the task reads several partitions: name one of local.in\[0\]@3"):
        two.plan(3)
    with pytest.raises(ConfigError, match="--from: names no input of the task"):
        two.plan("local.in[0]@3", start="local.other[0]@1")


def test_bad_places_are_refused(ran):
    with pytest.raises(ConfigError, match="--until: expected an offset, or one with its partition"):
        ran.plan("soon")
    with pytest.raises(OffsetOutOfRange, match=r"local.in\[0\]@30: the log holds offsets 0 to 30"):
        ran.plan(30)
    with pytest.raises(ConfigError, match="--from: must not be behind --until"):
        ran.plan(3, start="4")
    with pytest.raises(ConfigError, match="--task: expected a task of the job: Partition 0"):
        ran.plan(3, task="Partition 7")


def test_checkpoints_that_are_gone_are_named(ran):
    ran.compact(next(stream for stream in ran.admin.list_streams() if "checkpoint" in stream))
    with pytest.raises(EnvironmentFailure, match=r"the checkpoints before it are gone; .* with local.in\[0\] at 30"):
        ran.plan(12)


def test_an_input_that_retention_has_removed_is_named(ran):
    from samzapy.api.stream import SystemStreamPartition

    ran.admin.delete_records(SystemStreamPartition("local", "in", 0), 11)
    with pytest.raises(OffsetOutOfRange, match=r"local.in\[0\]@10: .* the records are gone"):
        ran.plan(12)


def test_a_compacted_changelog_is_refused(job):
    # Each key once before the commit, and again after it.
    job.send([("/a", {}), ("/b", {"commit": True}), ("/c", {}), ("/d", {"commit": True})])
    job.send([("/a", {}), ("/c", {"commit": True})])
    assert job.run() is None
    assert job.state(3) == {"/a": 1, "/b": 1}
    job.compact()
    with pytest.raises(EnvironmentFailure, match=r"counts-log\[0\]@\d+, the commit's last record: offset 0 is missing"):
        job.state(3)
    _, after, _ = job.replay(3, start="2", from_empty=True)
    assert after == {"/c": 1, "/d": 1}


def test_another_job_file_with_lost_state_is_refused(new_job):
    job = new_job("in", "out", task__guarantee="at-most-once")
    job.send([("/a", {})])
    assert job.run() is None
    with pytest.raises(ConfigError, match=r"task\.guarantee: commits positions ahead of the state"):
        job.plan(0)
    _, after, _ = job.replay(0, from_empty=True)
    assert after == {"/a": 1}


def test_the_scratch_folder_is_removed(ran, tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    with opened_replay(ran.config, ran.plan(3)) as replay:
        assert list((tmp_path / "tmp").iterdir())
        assert counted(replay) == {}
    assert not list((tmp_path / "tmp").iterdir())
