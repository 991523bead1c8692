import sys
from contextlib import closing

import pytest

from samzapy.admin.job_check import weakly_kept
from samzapy.admin.user_code import check_archives, make_importable
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamDescription, StreamSpec
from samzapy.api.task import CopartitionedTask, StreamTask
from samzapy.checkpoint.states import state_checkpoints
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import Ownership
from samzapy.errors import ConfigError, EnvironmentFailure, StoreDiskFailed, UnknownStream
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import job_clients, system_factory
from samzapy.system.local.factory import MemoryCluster


class Ignoring(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass


class Joining(Ignoring, CopartitionedTask):
    pass


JOB = {
    "job.name": "prepared",
    "job.default.system": "memory",
    "task.class": f"{__name__}:Ignoring",
    "task.inputs": "memory.in",
    "systems.memory.samza.factory": "memory",
    "systems.memory.default.stream.samza.offset.default": "oldest",
}
STORE = {
    "stores.s.factory": "inmemory",
    "stores.s.key.serde": "string",
    "stores.s.msg.serde": "string",
    "stores.s.changelog": "memory.s-changelog",
}
CHECKPOINTS = "__samza_checkpoint_ver_1_for_prepared_1"
STATES = "__samzapy_state_checkpoints_for_prepared_1"


@pytest.fixture(autouse=True)
def admin():
    MemoryCluster.reset_all()
    settings = load_job(JOB).systems["memory"]
    return system_factory(settings).admin(settings, "test")


def write(stream: str, partition: int, count: int) -> None:
    settings = load_job(JOB).systems["memory"]
    producer = system_factory(settings).producer(settings, "test")
    producer.send([OutgoingRecord(stream, None, b"x", partition)] * count)
    producer.flush()
    producer.close()


def test_the_model_has_a_task_for_each_partition_and_the_changelogs_are_created_to_match(admin):
    admin.create(StreamSpec("in", 3))
    prepared = prepare(load_job({**JOB, **STORE, "job.container.count": "2"}))
    assert [[t.name for t in c.tasks] for c in prepared.model.containers] == [
        ["Partition 0", "Partition 2"],
        ["Partition 1"],
    ]
    assert prepared.ends is None
    changelog = admin.describe("s-changelog")
    assert (changelog.partitions, changelog.config["cleanup.policy"]) == (3, "compact")
    assert admin.describe(CHECKPOINTS).partitions == 1


def created(admin, changes):
    """The settings of the topics that a job with a log of each kind creates, by stream."""
    admin.create(StreamSpec("in", 2))
    logs = {
        "metrics.reporters": "snapshot",
        "metrics.reporter.snapshot.class": "snapshot",
        "metrics.reporter.snapshot.stream": "memory.metrics",
    }
    config = load_job(JOB | STORE | logs | changes)
    prepare(config)
    with closing(job_clients(config, "test")) as clients:
        state_checkpoints(config, "Partition 0", clients).times()
    found = {stream: admin.describe(stream).config for stream in admin.list_streams()}
    for stream in found:
        admin.delete(stream)
    return found


LOGS, STATE = ("metrics",), ("s-changelog", CHECKPOINTS, STATES)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_every_topic_that_a_job_creates_has_the_topic_settings_of_its_system_and_keeps_its_own(admin, policy):
    default = "systems.memory.default.stream."
    changes = {
        f"{default}min.insync.replicas": "2",
        f"{default}max.message.bytes": "5000",
        f"{default}segment.bytes": "70000",
        f"{default}cleanup.policy": policy,
        f"{default}retention.ms": "1000",
        "stores.s.changelog.max.message.bytes": "6000",
    }
    found = created(admin, changes)
    assert [found[stream]["min.insync.replicas"] for stream in LOGS] == ["2"]
    policies = {stream: found[stream]["cleanup.policy"] for stream in (*STATE, *LOGS)}
    assert policies == {**dict.fromkeys(STATE, "compact"), **dict.fromkeys(LOGS, "delete")}
    sizes = [found[stream]["max.message.bytes"] for stream in ("s-changelog", CHECKPOINTS, "metrics")]
    assert sizes == ["6000", "5000", "5000"]
    assert found["s-changelog"]["retention.ms"] == "-1"
    assert found[CHECKPOINTS]["segment.bytes"] == "70000"


def test_tasks_keep_their_changelog_partitions_when_another_input_joins(admin):
    admin.create(StreamSpec("in", 2))
    grouped = {**JOB, "job.systemstreampartition.grouper.factory": "ssp"}
    before = {t.name: t.changelog_partition for t in prepare(load_job(grouped)).model.tasks}
    admin.create(StreamSpec("an-earlier-name", 2))
    both = {**grouped, "task.inputs": "memory.an-earlier-name,memory.in"}
    after = {t.name: t.changelog_partition for t in prepare(load_job(both)).model.tasks}
    assert before.items() <= after.items()
    assert sorted(after.values()) == [0, 1, 2, 3]


def test_a_guarantee_that_no_transaction_can_carry_is_refused_before_anything_is_written(admin):
    admin.create(StreamSpec("in", 1))
    files = {"task.checkpoint.factory": "file", "task.checkpoint.path": "checkpoints"}
    with pytest.raises(ConfigError, match="exactly-once needs checkpoints in a topic"):
        prepare(load_job({**JOB, **files, "task.guarantee": "exactly-once", "task.commit.ms": "1000"}))
    assert admin.list_streams() == ["in"]


def test_a_missing_input_is_named_and_nothing_is_written(admin):
    admin.create(StreamSpec("in", 1))
    with pytest.raises(UnknownStream, match="topic 'gone' does not exist on system 'memory'"):
        prepare(load_job({**JOB, **STORE, "task.inputs": "memory.in,memory.gone"}))
    assert admin.list_streams() == ["in"]


def test_different_partition_counts_are_a_warning_and_the_largest_gives_the_tasks(admin):
    admin.create(StreamSpec("in", 2))
    admin.create(StreamSpec("other", 4))
    prepared = prepare(load_job({**JOB, "task.inputs": "memory.in,memory.other"}))
    assert len(prepared.model.tasks) == 4
    assert any("partition counts differ: memory.in=2 memory.other=4" in warning for warning in prepared.warnings)


JOINING = {**JOB, "task.class": f"{__name__}:Joining", "task.inputs": "memory.in,memory.other"}


@pytest.mark.parametrize(
    ("grouper", "counts", "said"),
    [
        ("partition", (2, 4), "partition counts differ: memory.in=2 memory.other=4; messages of equal keys"),
        (
            "ssp",
            (2, 2),
            "each partition is a task of its own: memory.in=2 memory.other=2; messages of different inputs",
        ),
    ],
)
def test_inputs_of_a_task_that_joins_them_are_refused_if_they_do_not_meet(admin, grouper, counts, said):
    for stream, count in zip(("in", "other"), counts, strict=True):
        admin.create(StreamSpec(stream, count))
    keys = STORE | {"job.systemstreampartition.grouper.factory": grouper}
    with pytest.raises(EnvironmentFailure) as refused:
        prepare(load_job(JOINING | keys))
    assert str(refused.value) == f"task.inputs: {said} do not meet in one task, and Joining joins them"
    assert admin.list_streams() == ["in", "other"], "nothing was made"


def test_a_joined_input_that_grew_to_a_multiple_still_meets_the_other(admin):
    for stream in ("in", "other"):
        admin.create(StreamSpec(stream, 2))
    prepare(load_job(JOINING | STORE))
    admin.grow("in", 4)
    model = prepare(load_job(JOINING | STORE)).model
    assert {(ssp.stream, ssp.partition) for ssp in model.tasks[1].ssps} == {("in", 1), ("in", 3), ("other", 1)}


def test_a_run_whose_checkpoint_topic_was_created_again_says_so(admin):
    admin.create(StreamSpec("in", 1))
    prepared = prepare(load_job(JOB))
    ownership = Ownership.of(prepared.config, prepared.run_id)
    ownership.poll()
    admin.delete(CHECKPOINTS)
    admin.create(StreamSpec(CHECKPOINTS, 1, {"cleanup.policy": "compact"}))
    with pytest.raises(EnvironmentFailure, match="the owner's record is gone"):
        ownership.poll()


def test_a_changelog_that_would_lose_state_is_refused(admin):
    admin.create(StreamSpec("in", 1))
    admin.create(StreamSpec("s-changelog", 1, {"cleanup.policy": "delete"}))
    with pytest.raises(EnvironmentFailure, match="must be compact"):
        prepare(load_job({**JOB, **STORE}))


def test_until_end_takes_the_ends_as_they_are_now(admin):
    admin.create(StreamSpec("in", 2))
    write("in", 1, 5)
    prepared = prepare(load_job(JOB), until_end=True)
    write("in", 1, 5)
    assert prepared.ends == {SystemStreamPartition("memory", "in", n): (0, 5)[n] for n in (0, 1)}


def test_the_local_runner_puts_all_tasks_into_one_container_and_tells_how_it_went(admin):
    admin.create(StreamSpec("in", 3))
    for partition in range(3):
        write("in", partition, 10)
    prepared = prepare(load_job({**JOB, **STORE, "job.container.count": "3"}), until_end=True)
    heard = []
    outcome = LocalRunner().run(prepared, RunOptions(on_status=heard.append))
    assert not outcome.stopped
    assert outcome.status.processed == 30
    assert outcome.rate > 0
    assert [container.state for container in outcome.status.containers] == ["done"]
    assert heard[-1] == outcome.status
    again = LocalRunner().run(prepare(load_job({**JOB, **STORE}), until_end=True), RunOptions())
    assert again.status.processed == 0


def test_shipped_code_is_importable_here_and_a_missing_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    module = tmp_path / "shipped.py"
    module.write_text("")
    make_importable(load_job({**JOB, "job.spark.py.files": f"{module},{module}"}))
    assert sys.path.count(str(tmp_path)) == 1
    with pytest.raises(ConfigError) as refused:
        make_importable(load_job({**JOB, "job.spark.py.files": f"{tmp_path}/gone.zip,code.tar"}))
    assert str(refused.value) == (
        f"job.spark.py.files: file not found, got '{tmp_path}/gone.zip'\n"
        "job.spark.py.files: expected .py, .zip or .egg files, got 'code.tar'"
    )


def test_a_missing_archive_is_named_unless_it_is_elsewhere(tmp_path):
    (tmp_path / "env.tar.gz").touch()
    check_archives([f"{tmp_path}/env.tar.gz#env", "hdfs://host/env.tar.gz#env"])
    with pytest.raises(
        ConfigError, match=r"^job\.spark\.conf\.spark\.archives: file not found, got 'gone\.tar\.gz#env'$"
    ):
        check_archives(["gone.tar.gz#env"])


def test_what_weakens_the_guarantee_is_part_of_the_prepared_job(admin):
    admin.create(StreamSpec("in", 1))
    prepared = prepare(load_job({**JOB, "task.error.process.policy": "skip"}))
    assert [(weaker.key, weaker.durability) for weaker in prepared.guarantee_warnings] == [
        ("task.error.process.policy", False),
        ("systems.memory.samza.factory", True),
    ]


def test_the_copies_of_inputs_changelogs_checkpoints_and_transactions_are_looked_at():
    keys = {**JOB, **STORE, "task.guarantee": "exactly-once", "task.commit.ms": "1000"}
    there = {"s-changelog": 1, CHECKPOINTS: 1, "__transaction_state": 1, "in": 1}

    def describe(stream):
        copies = there.get(stream.stream)
        return copies and StreamDescription(stream.stream, 1, "id", {}, copies)

    assert [weaker.key for weaker in weakly_kept(load_job(keys), describe)] == [
        "stores.s.changelog.replication.factor",
        "task.checkpoint.replication.factor",
        "systems.memory",
        "task.inputs",
    ]
    del there["s-changelog"]
    assert len(weakly_kept(load_job(keys), describe)) == 3


def test_a_state_folder_below_a_file_is_refused_on_this_machine(admin, tmp_path):
    admin.create(StreamSpec("in", 1))
    (tmp_path / "file").touch()
    base = {"job.logged.store.base.dir": str(tmp_path / "file" / "state"), "stores.s.factory": "rocksdb"}
    with pytest.raises(
        StoreDiskFailed, match=r"state: cannot keep stores here: .*/file is a file; set job\.logged.*non-logged"
    ):
        prepare(load_job({**JOB, **STORE, **base}))
    prepare(load_job({**JOB, **STORE, **base, "job.spark.master": "spark://elsewhere:7077"}))
