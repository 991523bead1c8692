"""Which faults can be had where."""

from __future__ import annotations

import pytest

from samzapy.devkafka import DevBroker
from samzapy.errors import ConfigError
from samzapy.system.base import partition_of as product_partition_of
from samzapy.verify.target import Target
from samzapy.verify.workload import events, partition_of

CLUSTER, LOCAL, REMOTE = "local-cluster[2,1,1024]", "local[2,4]", "spark://master:7077"


@pytest.mark.parametrize(
    ("master", "own_broker", "expected"),
    [
        (
            CLUSTER,
            True,
            "worker executor driver zombie overlap upgrade foreign-writer broker-restart broker-kill mixed",
        ),
        (CLUSTER, False, "worker executor driver zombie overlap upgrade foreign-writer mixed"),
        (LOCAL, False, "worker driver zombie overlap upgrade foreign-writer mixed"),
        (REMOTE, False, "driver foreign-writer mixed"),
    ],
)
def test_the_scenarios_are_those_that_our_own_processes_allow(master, own_broker, expected, tmp_path):
    broker = DevBroker(tmp_path) if own_broker else None
    assert " ".join(Target("kafka", master, "127.0.0.1:9092", broker).scenarios) == expected


def test_on_a_remote_master_it_is_said_that_only_the_driver_is_killed():
    target = Target("kafka", REMOTE, "broker:9092")
    told = " ".join(target.limits())
    assert "only the driver is killed" in told
    assert "broker:9092" in told
    assert not target.stores_in_reach


def test_a_job_without_transactions_is_refused():
    target = Target("local", LOCAL, overrides={"task.state.transactions": "false"})
    with pytest.raises(ConfigError, match=r"task\.state\.transactions=true: is required"):
        target.check()


@pytest.mark.parametrize(
    ("system", "own_broker", "key"), [("local", False, "--system"), ("kafka", True, "--bootstrap")]
)
def test_a_system_that_remote_executors_cannot_reach_is_refused(system, own_broker, key, tmp_path):
    with pytest.raises(ConfigError, match=key):
        Target(system, REMOTE, None, DevBroker(tmp_path) if own_broker else None).check()


def test_there_are_not_more_containers_than_slots():
    assert Target("local", "local[1,4]").containers == 1
    assert Target("local", "local[8,4]").containers == 2
    assert Target("kafka", REMOTE).containers == 2


def test_the_checkers_partitions_are_those_of_javas_producers():
    # From Kafka's own tests of its murmur2.
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, hashed in hashes.items():
        assert partition_of(key, 1_000_003) == (hashed & 0x7FFFFFFF) % 1_000_003


def test_checker_and_product_work_out_the_same_partitions_independently():
    keys = {event.encode()[0] for event in events(2_000, "a")} | {b"", b"a", b"ab", b"abc", b"\xff\xfe\xfd"}
    assert all(partition_of(key, 7) == product_partition_of(key, 7) for key in keys)
