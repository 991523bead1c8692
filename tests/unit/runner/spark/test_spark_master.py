import pytest

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.runner.spark.master import Master, check_reach, without_sparks_secrets


@pytest.mark.parametrize(
    ("address", "slots", "on_this_machine"),
    [
        ("local", 1, True),
        ("local[3]", 3, True),
        ("local[4,2]", 4, True),
        ("local[ 4 , 2 ]", 4, True),
        ("local-cluster[2,3,1024]", 6, True),
        ("spark://host:7077", None, False),
        ("yarn", None, False),
        ("k8s://https://host:443", None, False),
    ],
)
def test_a_master_tells_its_slots_and_whether_it_is_on_this_machine(address, slots, on_this_machine):
    master = Master.parse(address)
    assert (master.slots, master.on_this_machine) == (slots, on_this_machine)


@pytest.mark.parametrize("address", ["", "locale", "local[x]", "local-cluster[2,1]", "http://host", "mesos://host"])
def test_another_address_is_refused_with_what_is_allowed(address):
    with pytest.raises(ConfigError, match=r"^job\.spark\.master: expected local\[N,F\]"):
        Master.parse(address)


def test_endless_containers_beyond_the_slots_are_refused_with_all_numbers():
    with pytest.raises(ConfigError) as refused:
        Master.parse("local[1]").check_slots(4)
    assert "4 endless containers need 4 slots, local[1] has 1: 3 would never run" in str(refused.value)
    Master.default(4).check_slots(4)
    Master.parse("spark://host:7077").check_slots(4)


def test_a_container_takes_as_many_cores_as_spark_counts_for_a_task():
    assert sized("local[5,4]", 2, task_cpus="2") == (0, 2)
    assert sized("local-cluster[2,3,1024]", 4, task_cpus="2") == (2, 2)
    assert sized("local[4,4]", 4, task_cpus="many") == (0, 4), "Spark refuses it"
    with pytest.raises(ConfigError) as refused:
        Master.parse("local[4]").sized({"spark.task.cpus": "2"}, 4, 0).check_slots(4)
    assert "local[4] has 2: 2 would never run; use local[8] or fewer" in str(refused.value)


def test_standbys_are_refused_where_there_is_only_one_executor():
    with pytest.raises(ConfigError, match=r"job.spark.master: standby containers need a second executor.*l\[4,4\]"):
        Master.parse("local[4,4]").check_standbys(1)
    Master.parse("local[4,4]").check_standbys(0)
    Master.parse("local-cluster[2,1,1024]").check_standbys(1)
    Master.parse("spark://host:7077").check_standbys(1)


ON_DEMAND = ["yarn", "k8s://https://host:443"]


def sized(master, containers, standbys=0, **conf):
    """The executors and slots of such a job."""
    settings = {f"spark.{key.replace('_', '.')}": value for key, value in conf.items()}
    made = Master.parse(master).sized(settings, containers, standbys)
    return made.executors, made.slots


@pytest.mark.parametrize("master", ON_DEMAND)
def test_a_master_that_starts_executors_on_demand_is_asked_for_one_for_each_container_and_standby(master):
    assert sized(master, 3) == (3, None)
    assert sized(master, 3, 3) == (6, None)
    assert sized(master, 5, executor_cores="2") == (3, 6)
    assert sized(master, 5, executor_cores="4", task_cpus="2") == (3, 6)


@pytest.mark.parametrize("master", ON_DEMAND)
def test_a_container_and_its_standbys_get_executors_of_their_own(master):
    assert sized(master, 2, 2, executor_cores="8") == (2, 16)
    assert sized(master, 1, 2, executor_cores="8") == (3, 24)


@pytest.mark.parametrize("master", ON_DEMAND)
def test_what_the_settings_say_about_executors_stays(master):
    assert sized(master, 4, executor_instances="2") == (2, None)
    assert sized(master, 4, executor_instances="2", executor_cores="3") == (2, 6)
    assert sized(master, 4, executor_cores="many") == (0, None)


def test_endless_containers_beyond_the_executors_asked_for_are_refused_with_the_setting():
    conf = {"spark.executor.instances": "2", "spark.executor.cores": "1"}
    with pytest.raises(ConfigError) as refused:
        Master.parse("yarn").sized(conf, 3, 0).check_slots(3)
    assert (
        "3 endless containers need 3 slots, yarn has 2: 1 would never run; use more spark.executor.instances or fewer "
        "job.container.count"
    ) in str(refused.value)


REMOTE = ["spark://host:7077", "yarn", "k8s://https://host:6443"]
REACHED_JOB = {
    "job.name": "counts",
    "task.class": "some.module:Task",
    "task.inputs": "kafka.in",
    "systems.kafka.samza.factory": "kafka",
    "systems.kafka.consumer.bootstrap.servers": "broker:9092",
}
STORE = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}


def told(master, **keys):
    given = {key.replace("__", "-").replace("_", "."): value for key, value in keys.items()}
    return check_reach(load_job({**REACHED_JOB, "job.spark.master": master, **given}, environ={}))


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
        ({"systems.x.samza.factory": "database", "systems.x.database.url": "sqlite:////x.db"}, "a file of SQLite"),
    ],
)
def test_a_system_on_this_machine_is_refused_for_executors_elsewhere(master, keys, where):
    assert told("local-cluster[2,1,1024]", **keys) == ()
    with pytest.raises(ConfigError) as caught:
        told(master, **keys)
    (problem,) = caught.value.problems
    assert problem.key == "systems.x.samza.factory"
    assert problem.message.startswith(f"its streams are in {where}, which the executors of {master} cannot reach: ")
    assert "use a system that they reach, such as kafka" in problem.message


@pytest.mark.parametrize("folder", ["", "~/"])
def test_folders_that_every_executor_would_have_for_itself_are_refused_together(folder):
    keys = {
        "task.checkpoint.factory": "file",
        "task.checkpoint.path": f"{folder}checkpoints",
        **STORE,
        "stores.s.changelog": "kafka.s-log",
        "stores.s.backup.path": "snapshots",
    }
    with pytest.raises(ConfigError) as caught:
        told("spark://host:7077", **keys)
    expected = ["task.checkpoint.path", "stores.s.backup.path"]
    assert [problem.key for problem in caught.value.problems] == expected
    assert all(
        problem.message.startswith("expected an absolute path that all hosts share")
        for problem in caught.value.problems
    )
    shared = {
        key: f"/shared/{value.removeprefix(folder)}" if key.endswith(".path") else value for key, value in keys.items()
    }
    assert told("spark://host:7077", **shared, **{"job.logged.store.base.dir": "/var/state"}) == ()
    assert told("local[1,4]", **keys) == ()


def test_state_in_a_relative_folder_is_warned_of_since_no_later_run_finds_it():
    logged = {**STORE, "stores.s.changelog": "kafka.s-log"}
    (warning,) = told("spark://host:7077", **logged)
    assert warning.startswith("job.logged.store.base.dir: 'state' is relative, and the executors of spark://host:7077 ")
    assert "LOGGED_STORE_BASE_DIR" in warning
    for kept in ("/var/state", "~/state"):
        assert told("spark://host:7077", **logged, **{"job.logged.store.base.dir": kept}) == ()
    assert told("spark://host:7077", **STORE) == ()


@pytest.mark.parametrize("master", REMOTE)
def test_literal_secrets_are_refused_for_executors_elsewhere_and_the_error_says_how_to_give_them(master):
    secrets = {"systems.kafka.consumer.sasl.password": "hunter2", "systems.kafka.producer.sasl.password": "hunter2"}
    assert told("local-cluster[2,1,1024]", **secrets) == ()
    with pytest.raises(ConfigError) as caught:
        told(master, **secrets)
    assert [problem.key for problem in caught.value.problems] == list(secrets)
    assert caught.value.exit_code == 2
    assert "expected ${env:NAME}, which each container reads from the environment of its own machine" in str(
        caught.value
    )
    assert "hunter2" not in str(caught.value)


def test_secrets_that_only_spark_needs_may_be_written_and_stay_with_the_driver():
    key = "job.spark.conf.spark.hadoop.fs.s3a.secret.key"
    assert told("spark://host:7077", **{key: "hunter2"}) == ()
    raw = load_job({**REACHED_JOB, key: "hunter2", "job.spark.conf.spark.executor.memory": "2g"}).raw
    kept = without_sparks_secrets(raw)
    assert dict(raw).keys() - dict(kept).keys() == {key}


def test_a_coordinator_without_tls_is_warned_of_where_executors_are_elsewhere():
    off = {"job.spark.coordinator.tls.enabled": "false"}
    (warning,) = told("spark://host:7077", **off)
    assert warning.startswith("job.spark.coordinator.tls.enabled=false: the token that acts and all reports cross")
    assert told("local-cluster[2,1,1024]", **off) == ()
