"""The order and the clock of a replay's records: the same whether they are shown or not, and within the commits'
bounds."""

import pytest

TIMERS = {"stores__timers__factory": "timers", "stores__timers__changelog": "local.timers-log"}


@pytest.fixture
def make(new_job):
    """Makes a job of one of the trails, with two inputs."""
    keys = {"task__inputs": "local.in,local.more", **TIMERS}
    return lambda task, **more: new_job("in", "more", task__class=f"trails:{task}", **keys, **more)


def shown(steps):
    return [(step.at, step.time_ms, step.changes) for step in steps]


@pytest.mark.parametrize("apart_s", [0.3, 10])
@pytest.mark.parametrize("task", ["TrailTask", "TrailCoroutine"])
def test_the_records_before_the_first_one_to_show_are_processed_as_if_they_were_shown(make, task, apart_s):
    job = make(task)
    job.send([("a", {}, 2 * n * apart_s) for n in range(4)])
    job.send([("b", {}, (2 * n + 1) * apart_s) for n in range(4)], "more")
    assert job.run() is None
    all_steps, trail, _ = job.replay("local.more[0]@3", start="local.in[0]@0")
    some_steps, same_trail, _ = job.replay("local.more[0]@3", start="local.in[0]@3")
    assert same_trail == trail
    (last_hidden,) = (n for n, step in enumerate(all_steps) if step.at == "local.more[0]@2")
    assert shown(some_steps) == shown(all_steps[last_hidden + 1 :])


@pytest.mark.parametrize("size", [{}, {"task__batch__max__messages": "1"}])
def test_a_batch_does_not_reach_over_a_commit(make, size):
    job = make("TrailBatches", **size)
    for first in (0, 100):
        job.send([("a", {}, first), ("a", {}, first + 3)])
        job.send([("b", {}, first + 1), ("b", {}, first + 2)], "more")
        assert job.run() is None
    steps, _, _ = job.replay("local.more[0]@3", start="local.in[0]@0")
    assert [step.at for step in steps if step.inputs] == [
        "local.in[0]@0 to 1, local.more[0]@0 to 1",
        "local.in[0]@2, local.more[0]@2 to 3",
    ]
