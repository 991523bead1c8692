"""Partition growth by Samza's rule, as pure functions; and the planner's part in it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.config.task import TaskConfig
from samzapy.errors import EnvironmentFailure, RestoreError
from samzapy.job.planner import InputPartitions, JobModel, follow_growth, from_json, plan, to_json
from samzapy.strict_json import decode, encode

ORDERS, USERS = SystemStream("kafka", "orders"), SystemStream("kafka", "users")
JOB = JobConfig(
    name="job", task=TaskConfig(task_class="a:B", inputs=(ORDERS,)), systems={}, streams={}, stores={}, serdes={}
)


def run(known, count, *, keeps_state=True, stream=ORDERS):
    return follow_growth(known, {stream: count}, keeps_state=keeps_state)


@given(
    first=st.integers(1, 8),
    factors=st.lists(st.integers(1, 3), max_size=4),
    grouper=st.sampled_from(["partition", "ssp"]),
)
def test_every_key_stays_with_its_task_however_often_the_input_is_multiplied(first, factors, grouper):
    config = replace(JOB, grouper=grouper)
    known = run({}, first)
    task_of_hash = {}
    count = first
    for factor in [1, *factors]:
        count *= factor
        known = run(known, count)
        model = plan(config, {ORDERS: count}, known=known)
        assert len(model.tasks) == first
        owner = {ssp.partition: task.name for task in model.tasks for ssp in task.ssps}
        assert sorted(owner) == list(range(count))
        for hashed in range(200):
            assert task_of_hash.setdefault(hashed, owner[hashed % count]) == owner[hashed % count]


@pytest.mark.parametrize("count", [2, 5, 6, 3])
def test_another_count_is_refused_with_both_numbers(count):
    with pytest.raises(
        EnvironmentFailure, match=rf"kafka.orders has {count} partitions, .* by 4: expected 4 or a multiple"
    ):
        run(run({}, 4), count)


def test_a_job_without_state_gets_a_task_for_each_new_partition():
    known = run(run({}, 4, keeps_state=False), 6, keeps_state=False)
    assert known == {ORDERS: InputPartitions(first=4, grouped=6, last=6)}
    assert len(plan(JOB, {ORDERS: 6}, known=known).tasks) == 6


def test_a_job_that_gets_its_first_store_after_a_growth_is_grouped_as_it_then_was():
    known = run(run(run({}, 4, keeps_state=False), 6, keeps_state=False), 12)
    assert known[ORDERS].grouped == 6


def test_a_job_that_has_expanded_keeps_its_tasks_when_it_loses_its_stores():
    known = run(run({}, 4), 8)
    assert run(known, 8, keeps_state=False) == known


def test_partitions_of_the_first_start_are_not_late_and_all_later_ones_are_for_ever():
    known = run(run(run({}, 2), 4), 4)
    late = {ssp.partition for task in plan(JOB, {ORDERS: 4}, known=known).tasks for ssp in task.late}
    assert late == {2, 3}


def test_a_partition_that_grew_out_of_a_broadcast_one_is_refused():
    broadcast = frozenset({SystemStreamPartition("kafka", "orders", 1)})
    config = replace(JOB, task=TaskConfig(task_class="a:B", inputs=(ORDERS,), broadcast_inputs=broadcast))
    with pytest.raises(EnvironmentFailure, match=r"kafka.orders\[3\]: its keys belong to kafka.orders\[1\]"):
        plan(config, {ORDERS: 4}, known=run(run({}, 2), 4))


def test_what_is_known_survives_its_json_form_and_the_model_its_own():
    known = run(run({}, 2), 4)
    assert from_json(to_json(known)) == known
    assert from_json(None) == {}
    model = plan(JOB, {ORDERS: 4}, known=known)
    assert decode(JobModel, encode(model)) == model


@pytest.mark.parametrize("data", [{}, {"inputs": 3}, {"inputs": {"kafka.orders": {"first": 1}}}, {"inputs": {"x": {}}}])
def test_a_record_that_is_something_else_is_refused(data):
    with pytest.raises(RestoreError, match="record of its inputs"):
        from_json(data)
