"""Which streams patterns make inputs, and which of those a job can take."""

import pytest

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.loader import load_job, with_inputs
from samzapy.errors import ConfigError, EnvironmentFailure
from samzapy.job.planner import (
    InputPartitions,
    check_found,
    find_inputs,
    follow_growth,
    forget_gone,
    is_late,
    late_inputs,
    refusal,
    refuse_further_tasks,
)

JOB = {
    "job.name": "orders",
    "task.class": "my.module:MyTask",
    "task.inputs": "local.orders-.*",
    "systems.local.samza.factory": "local",
}
STORE = {
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "local.orders-s-changelog",
}
EU, US = SystemStream("local", "orders-eu"), SystemStream("local", "orders-us")
TASKS = {"Partition 0": 0, "Partition 1": 1}


def found(names, **keys):
    config = load_job(JOB | keys)
    return find_inputs(config, {"local": names})


def resolved(**keys):
    config = load_job(JOB | keys)
    return with_inputs(
        config, find_inputs(config, {"local": ["orders-eu", "orders-us"]}).by_pattern
    ), config.task.patterns


def test_streams_of_the_job_itself_and_internal_ones_are_no_inputs():
    keys = STORE | {
        "task.inputs": "local..*",
        "task.error.process.policy": "dead-letter",
        "task.dead.letter.stream": "local.orders-dead",
        "orders.output": "local.orders-out",
        "stores.s.changelog.access.log": "1",
    }
    names = ["__samza_checkpoint_ver_1_for_other_1", "orders-s-changelog", "orders-dead", "orders-out", "orders-eu"]
    inputs = found(names, **keys)
    assert inputs.streams == {EU}
    assert {str(stream): reason for stream, reason in inputs.left_out.items()} == {
        "local.orders-s-changelog": "the changelog of store 's'",
        "local.orders-dead": "task.dead.letter.stream names it",
        "local.orders-out": "orders.output names it",
    }


def test_a_side_input_is_no_input():
    keys = {
        "stores.s.factory": "rocksdb",
        "stores.s.key.serde": "string",
        "stores.s.msg.serde": "json",
        "stores.s.side.inputs": "local.orders-rates",
        "stores.s.side.inputs.processor.factory": "my.module:Processor",
    }
    assert found(["orders-eu", "orders-rates"], **keys).streams == {EU}


def test_a_pattern_without_a_match_is_an_error_that_says_what_to_do():
    config = load_job(JOB)
    with pytest.raises(ConfigError) as caught:
        check_found(config, find_inputs(config, {"local": ["clicks"]}))
    assert str(caught.value) == (
        "task.inputs: matches no stream of system 'local' now; create one first, got 'local.orders-.*'"
    )


def test_a_pattern_without_a_match_may_wait_beside_another_input():
    config = load_job(JOB | {"task.inputs": "local.orders-.*,local.clicks", "job.inputs.refresh.ms": "1000"})
    check_found(config, find_inputs(config, {"local": ["clicks"]}))


def test_at_the_first_start_no_input_is_late():
    config, patterns = resolved()
    assert late_inputs(config, patterns, set(), ever=False) == set()


def test_after_the_first_start_an_input_that_a_pattern_finds_is_read_from_its_oldest_record():
    config, patterns = resolved()
    late = late_inputs(config, patterns, {EU}, ever=True)
    inputs = follow_growth({EU: InputPartitions(2, 2, 2)}, {EU: 2, US: 2}, keeps_state=True, late=late)
    assert [is_late(ssp, inputs) for ssp in (_partition(EU, 0), _partition(US, 0), _partition(US, 1))] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "key",
    [
        "systems.local.default.stream.samza.offset.default",
        "systems.local.streams.orders-.*.samza.offset.default",
        "systems.local.streams.orders-us.samza.offset.default",
    ],
)
def test_an_input_starts_where_the_job_file_says(key):
    config, patterns = resolved(**{key: "upcoming"})
    assert US not in late_inputs(config, patterns, {EU}, ever=True)


def test_a_named_input_that_joins_later_starts_at_its_default():
    config, patterns = resolved(**{"task.inputs": "local.orders-eu,local.clicks"})
    assert late_inputs(config, patterns, {EU}, ever=True) == set()


def test_an_input_that_was_gone_is_a_new_one_when_it_comes_back():
    _, patterns = resolved()
    clicks = SystemStream("local", "clicks")
    known = {EU: InputPartitions(2, 2, 2), US: InputPartitions(2, 2, 2), clicks: InputPartitions(1, 1, 1)}
    assert forget_gone(known, [EU], patterns).keys() == {EU, clicks}


def test_a_new_input_that_needs_tasks_without_state_is_refused_with_both_numbers():
    config = load_job(JOB | STORE)
    assert refusal(config, US, 2, TASKS) is None
    assert refusal(config, US, 3, TASKS) == (
        "local.orders-us has 3 partitions, for 3 tasks in all; the job's state is by 2: give it fewer partitions, "
        "leave it out of task.inputs, or start a new job (job.id)"
    )
    with pytest.raises(EnvironmentFailure, match=r"^task\.inputs: local\.orders-us has 3 partitions, for 3 tasks"):
        refuse_further_tasks(config, {EU: 2, US: 3}, [US], TASKS)


def test_a_task_that_joins_takes_only_inputs_with_as_many_partitions():
    config = load_job(JOB)
    assert refusal(config, US, 2, TASKS, joining=True) is None
    assert "messages of equal keys would not meet" in refusal(config, US, 1, TASKS, joining=True)


def _partition(stream, number):
    return SystemStreamPartition(*stream, number)
