"""The planner: names and counts in, job model out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.job import JobConfig
from samzapy.config.task import TaskConfig
from samzapy.errors import ConfigError
from samzapy.job.planner import JobModel, plan
from samzapy.strict_json import decode, encode

ORDERS, USERS = SystemStream("kafka", "orders"), SystemStream("kafka", "users")


def job(*inputs, containers=1, grouper="partition", broadcast=()):
    return JobConfig(
        name="job",
        id="1",
        task=TaskConfig(task_class="a:B", inputs=inputs, broadcast_inputs=frozenset(broadcast)),
        systems={},
        streams={},
        stores={},
        serdes={},
        container_count=containers,
        grouper=grouper,
    )


def test_inputs_with_the_same_partition_number_meet_in_one_task():
    model = plan(job(ORDERS, USERS), {ORDERS: 3, USERS: 2})
    assert [task.name for task in model.tasks] == ["Partition 0", "Partition 1", "Partition 2"]
    assert model.tasks[0].ssps == {
        SystemStreamPartition("kafka", "orders", 0),
        SystemStreamPartition("kafka", "users", 0),
    }
    assert model.tasks[2].ssps == {SystemStreamPartition("kafka", "orders", 2)}


def test_grouping_by_ssp_gives_a_task_per_partition_of_every_input():
    model = plan(job(ORDERS, USERS, grouper="ssp"), {ORDERS: 2, USERS: 1})
    assert [task.name for task in model.tasks] == [
        "SystemStreamPartition [kafka, orders, 0]",
        "SystemStreamPartition [kafka, orders, 1]",
        "SystemStreamPartition [kafka, users, 0]",
    ]


def test_grouping_into_a_single_task_gives_it_everything():
    model = plan(job(ORDERS, USERS, grouper="single", containers=4), {ORDERS: 2, USERS: 1})
    assert [len(task.ssps) for task in model.tasks] == [3]
    assert len(model.containers) == 1


def test_a_broadcast_partition_joins_every_task_and_forms_none():
    rules = SystemStreamPartition("kafka", "rules", 0)
    model = plan(job(ORDERS, broadcast=[rules]), {ORDERS: 2})
    assert len(model.tasks) == 2
    assert all(rules in task.ssps for task in model.tasks)


def test_a_broadcast_partition_of_an_input_is_not_also_a_task():
    broadcast = SystemStreamPartition("kafka", "orders", 1)
    model = plan(job(ORDERS, broadcast=[broadcast]), {ORDERS: 2})
    assert [task.name for task in model.tasks] == ["Partition 0"]


@given(partitions=st.integers(1, 40), before=st.integers(1, 12), after=st.integers(1, 12))
def test_changing_the_container_count_moves_tasks_but_changes_no_task(partitions, before, after):
    first = plan(job(ORDERS, containers=before), {ORDERS: partitions})
    second = plan(job(ORDERS, containers=after), {ORDERS: partitions})
    assert first.tasks == second.tasks
    sizes = [len(container.tasks) for container in second.containers]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == min(after, partitions)


def test_a_new_input_never_changes_the_changelog_partition_of_an_old_task():
    first = plan(job(ORDERS, grouper="ssp"), {ORDERS: 2})
    owned = {task.name: task.changelog_partition for task in first.tasks}
    ads = SystemStream("kafka", "ads")
    second = plan(job(ads, ORDERS, grouper="ssp"), {ORDERS: 2, ads: 2}, owned)
    assert {task.name: task.changelog_partition for task in second.tasks if "orders" in task.name} == owned
    assert sorted(task.changelog_partition for task in second.tasks) == [0, 1, 2, 3]
    assert second.changelog_partition_count == 4


def test_a_model_survives_its_json_form():
    model = plan(job(ORDERS, USERS, containers=2), {ORDERS: 3, USERS: 3})
    assert decode(JobModel, encode(model)) == model
    assert model.container("1").id == "1"
    with pytest.raises(StopIteration):
        replace(model, containers=()).container("1")


def test_a_job_without_a_task_is_refused():
    with pytest.raises(ConfigError, match=r"^task\.inputs: expected an input with partitions: they have none, "):
        plan(job(ORDERS, USERS), {ORDERS: 0, USERS: 0})
    everything = [SystemStreamPartition("kafka", "orders", number) for number in range(2)]
    with pytest.raises(ConfigError, match=r"^task\.broadcast\.inputs: takes every partition of task\.inputs, "):
        plan(job(ORDERS, broadcast=everything), {ORDERS: 2})
