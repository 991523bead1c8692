"""Which containers are asked for a key."""

import pytest

from samzapy.api.stream import SystemStreamPartition
from samzapy.job.model import ContainerModel, JobModel, TaskModel
from samzapy.queries.owners import StoreOwners
from samzapy.system.partitioner import partition_of


def ssp(stream, partition):
    return SystemStreamPartition("kafka", stream, partition)


def model(tasks, containers=2):
    """`tasks`: the partitions of each task, as (stream, partition)."""
    made = [TaskModel(f"Partition {n}", frozenset(ssp(*each) for each in read), n) for n, read in enumerate(tasks)]
    return JobModel(
        tuple(ContainerModel(str(c), tuple(made[c::containers])) for c in range(containers)),
        (ContainerModel("0-1", tuple(made[0::containers])),),
    )


KEYS = [b"key-%d" % n for n in range(200)]


def test_without_more_knowledge_every_container_is_asked():
    owners = StoreOwners(model([[("in", n)] for n in range(4)]))
    assert owners.of_key("counts", b"a") == {"0": None, "1": None}
    assert owners.of_all() == {"0": None, "1": None}
    assert sorted(owners.partitions) == [0, 1, 2, 3]


def test_the_task_of_an_input_key_is_the_one_that_reads_its_partition():
    owners = StoreOwners(model([[("in", n)] for n in range(4)]), ["counts"])
    for key in KEYS:
        partition = partition_of(key, 4)
        assert owners.of_key("counts", key) == {str(partition % 2): (partition,)}
    assert owners.of_key("others", b"a") == {"0": None, "1": None}


def test_inputs_with_equal_counts_agree_on_the_task():
    owners = StoreOwners(model([[("in", n), ("also", n)] for n in range(4)]), ["counts"])
    assert all(len(owners.of_key("counts", key)) == 1 for key in KEYS)


def test_inputs_with_other_counts_have_a_task_each():
    owners = StoreOwners(model([[("in", 0), ("wide", 0)], [("in", 1), ("wide", 1)], [("wide", 2)]]), ["counts"])
    for key in KEYS:
        wanted = {partition_of(key, 2), partition_of(key, 3)}
        found = owners.of_key("counts", key)
        assert {p for partitions in found.values() for p in partitions} == wanted


def test_an_input_that_has_grown_leaves_its_keys_with_the_old_tasks():
    owners = StoreOwners(model([[("in", 0), ("in", 2)], [("in", 1), ("in", 3)]]), ["counts"])
    for key in KEYS:
        partition = partition_of(key, 2)
        assert owners.of_key("counts", key) == {str(partition): (partition,)}


def test_a_stream_that_every_task_reads_does_not_decide():
    control = ssp("control", 0)
    tasks = model([[("in", n), ("control", 0)] for n in range(4)])
    assert all(len(StoreOwners(tasks, ["s"], [control]).of_key("s", key)) == 1 for key in KEYS)


def test_where_a_partition_of_an_input_goes_to_every_task_all_are_asked():
    broadcast = ssp("in", 3)
    tasks = model([[("in", n), ("in", 3)] for n in range(3)])
    assert StoreOwners(tasks, ["s"], [broadcast]).of_key("s", b"a") == {"0": None, "1": None}


def test_a_partition_has_one_container_and_a_container_its_standbys():
    owners = StoreOwners(model([[("in", n)] for n in range(4)]))
    assert owners.of_partition(3) == {"1": (3,)}
    with pytest.raises(KeyError):
        owners.of_partition(4)
    assert (owners.standbys_of("0"), owners.standbys_of("1")) == (("0-1",), ())
