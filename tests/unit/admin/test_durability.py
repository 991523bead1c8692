"""More copies than there are brokers."""

import pytest

from samzapy.admin.job_check import check_copies
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.system.clients import SystemLimits
from samzapy.system.local.factory import LogAdmin, MemoryCluster, MemoryLog

JOB = {
    "job.name": "copies",
    "task.class": "a:B",
    "task.inputs": "memory.in",
    "job.default.system": "memory",
    "systems.memory.samza.factory": "memory",
    **{
        f"stores.{name}.{key}": value
        for name in "ab"
        for key, value in {"factory": "inmemory", "key.serde": "string", "msg.serde": "string"}.items()
    },
    "stores.a.changelog": "memory.a",
    "stores.a.changelog.replication.factor": "3",
    "stores.b.changelog": "memory.b",
    "stores.default.changelog.replication.factor": "2",
    "task.checkpoint.replication.factor": "4",
}


class OneBroker(LogAdmin):
    """Says what a cluster of one broker says."""

    def limits(self):
        return SystemLimits(replicas=1)


@pytest.fixture
def one_broker():
    cluster = MemoryCluster("memory")
    return OneBroker(MemoryLog("memory", cluster))


def test_every_key_that_asks_for_too_many_copies_is_named(one_broker):
    with pytest.raises(ConfigError) as caught:
        check_copies(load_job(JOB), lambda _: one_broker, lambda _: None)
    limit = "must be at most 1, the number of brokers of system 'memory', got"
    assert [str(problem) for problem in caught.value.problems] == [
        f"stores.a.changelog.replication.factor: {limit} '3'",
        f"stores.default.changelog.replication.factor: {limit} '2'",
        f"task.checkpoint.replication.factor: {limit} '4'",
    ]


def test_the_systems_number_of_copies_counts_for_every_stream_without_its_own(one_broker):
    default = "systems.memory.default.stream.replication.factor"
    given = {key: value for key, value in JOB.items() if "replication" not in key}
    own = {"stores.a.changelog.replication.factor": "1", "stores.default.changelog.replication.factor": "2"}
    config = load_job({**given, **own, default: "3"})
    with pytest.raises(ConfigError) as caught:
        check_copies(config, lambda _: one_broker, lambda _: None)
    assert [(problem.key, problem.value) for problem in caught.value.problems] == [
        ("stores.default.changelog.replication.factor", "2"),
        (default, "3"),
    ]
