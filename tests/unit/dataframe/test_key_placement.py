"""Which changelog partition a row's key belongs to."""

from collections.abc import Mapping

import pytest

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.config.loader import load_job
from samzapy.dataframe.partition_writer import key_placement
from samzapy.dataframe.reading import JobTasks
from samzapy.errors import ConfigError
from samzapy.job.planner import follow_growth, plan
from samzapy.verify.workload import partition_of

JOB = {
    "job.name": "j",
    "job.default.system": "local",
    "task.class": "a:B",
    "task.inputs": "local.in",
    "systems.local.samza.factory": "local",
    "systems.local.default.stream.samza.key.serde": "string",
    "stores.s.factory": "rocksdb",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "json",
    "stores.s.changelog": "local.log",
}


def placement(counts: Mapping[str, int], known=None, previous=None, **keys: str):
    config = load_job({**JOB, **{key.replace("__", "."): value for key, value in keys.items()}})
    streams = {SystemStream("local", name): count for name, count in counts.items()}
    before = (
        {}
        if known is None
        else follow_growth({}, {SystemStream("local", n): c for n, c in known.items()}, keeps_state=True)
    )
    inputs = follow_growth(before, streams, keeps_state=True)
    model = plan(config, streams, previous, inputs)
    tasks = JobTasks(model, inputs, {})
    return key_placement(config, config.stores["s"], tasks), model


def owner(model, key: bytes, partitions: int, stream: str = "in") -> int:
    """By the task that reads what a producer sends with the key."""
    ssp = SystemStreamPartition("local", stream, partition_of(key, partitions))
    (task,) = [task for task in model.tasks if ssp in task.ssps]
    return task.changelog_partition


KEYS = [b"key-%d" % number for number in range(300)]


@pytest.mark.parametrize("count", [1, 4, 12])
@pytest.mark.parametrize("grouper", ["partition", "ssp", "single"])
def test_a_key_goes_to_the_changelog_partition_of_the_task_that_gets_its_messages(count, grouper):
    found, model = placement({"in": count}, job__systemstreampartition__grouper__factory=grouper)
    assert [found[partition_of(key, len(found))] for key in KEYS] == [owner(model, key, count) for key in KEYS]


def test_a_task_that_had_another_changelog_partition_before_keeps_it():
    found, _ = placement({"in": 2}, previous={"Partition 0": 1, "Partition 1": 0})
    assert found == (1, 0)


def test_an_input_that_has_grown_leaves_every_key_where_its_state_is():
    found, model = placement({"in": 8}, known={"in": 4})
    assert len(model.tasks) == 4
    assert [found[partition_of(key, len(found))] for key in KEYS] == [owner(model, key, 8) for key in KEYS]


def test_inputs_that_agree_place_a_key_and_those_that_do_not_are_refused_with_their_partitions():
    found, _ = placement({"in": 4, "also": 4}, task__inputs="local.in,local.also")
    assert found == (0, 1, 2, 3)
    with pytest.raises(ConfigError) as refused:
        placement({"in": 4, "also": 2}, task__inputs="local.in,local.also")
    assert str(refused.value) == (
        "stores.s.key.serde: the inputs local.in (4 partitions), local.also (2 partitions) send a "
        "key to different tasks; say where each row belongs (place_by)"
    )
    with pytest.raises(ConfigError, match="send a key to different tasks"):
        placement(
            {"in": 2, "also": 2}, task__inputs="local.in,local.also", job__systemstreampartition__grouper__factory="ssp"
        )


def test_keys_that_are_other_bytes_in_the_input_than_in_the_store_are_refused():
    with pytest.raises(ConfigError) as refused:
        placement({"in": 2}, stores__s__key__serde="long")
    assert str(refused.value) == (
        "stores.s.key.serde: the keys of input local.in are string, so their hash is another one than the store's; "
        "say where each row belongs (place_by), got 'long'"
    )
    found, _ = placement({"in": 1}, stores__s__key__serde="long")
    assert found == (0,)
