"""A job file that names what lies on this machine, and a Spark whose executors are elsewhere."""

import pytest

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.runner.spark.reach import check_reach

REMOTE = ["spark://host:7077", "yarn", "k8s://https://host:6443"]
JOB = {
    "job.name": "counts",
    "task.class": "some.module:Task",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "kafka",
    "systems.kafka.consumer.bootstrap.servers": "broker:9092",
}
STORE = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}


def told(master, **keys):
    given = {key.replace("__", "-").replace("_", "."): value for key, value in keys.items()}
    return check_reach(load_job({**JOB, "job.spark.master": master, **given}, environ={}))


@pytest.mark.parametrize("master", [*REMOTE, "local[2,4]", "local-cluster[2,1,1024]"])
def test_what_is_on_the_network_is_reached_from_everywhere(master):
    assert told(master) == ()
    database = {"systems.shop.samza.factory": "database", "systems.shop.database.url": "postgresql+psycopg://host/shop"}
    assert told(master, **database) == ()


@pytest.mark.parametrize("master", REMOTE)
@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"systems.x.samza.factory": "local", "systems.x.path": "/data/log.db"}, "the file /data/log.db"),
        ({"systems.x.samza.factory": "memory"}, "the memory of one process"),
        (
            {"systems.x.samza.factory": "database", "systems.x.database.url": "sqlite:////data/shop.db"},
            "a file of SQLite",
        ),
    ],
)
def test_a_system_on_this_machine_is_refused_for_executors_elsewhere(master, keys, where):
    assert told("local-cluster[2,1,1024]", **keys) == ()
    with pytest.raises(ConfigError) as caught:
        told(master, **keys)
    (problem,) = caught.value.problems
    assert problem.key == "systems.x.samza.factory"
    assert problem.message == f"its streams are in {where}, out of reach of the executors of {master}"


def test_folders_that_every_executor_would_have_for_itself_are_refused_together():
    keys = {
        "task.checkpoint.factory": "file",
        "task.checkpoint.path": "checkpoints",
        "state.checkpoint.factory": "file",
        "state.checkpoint.path": "states",
        **STORE,
        "stores.s.changelog": "kafka.s-log",
        "stores.s.backup.path": "snapshots",
    }
    with pytest.raises(ConfigError) as caught:
        told("spark://host:7077", **keys)
    expected = ["task.checkpoint.path", "state.checkpoint.path", "stores.s.backup.path"]
    assert [problem.key for problem in caught.value.problems] == expected
    assert all(
        problem.message.startswith("expected an absolute path that all hosts share")
        for problem in caught.value.problems
    )
    shared = {key: f"/shared/{value}" if key.endswith(".path") else value for key, value in keys.items()}
    assert told("spark://host:7077", **shared, **{"job.logged.store.base.dir": "/var/state"}) == ()
    assert told("local[1,4]", **keys) == ()


def test_state_in_a_relative_folder_is_warned_of_since_no_later_run_finds_it():
    logged = {**STORE, "stores.s.changelog": "kafka.s-log"}
    (warning,) = told("spark://host:7077", **logged)
    assert warning.startswith("job.logged.store.base.dir: 'state' is relative, and the executors of spark://host:7077 ")
    assert "LOGGED_STORE_BASE_DIR" in warning
    assert told("spark://host:7077", **logged, **{"job.logged.store.base.dir": "/var/state"}) == ()
    assert told("spark://host:7077", **STORE) == ()
