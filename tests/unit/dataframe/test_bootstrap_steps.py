"""What happens around a write on the driver: who may write, what a start then finds, where it begins."""

from contextlib import closing, contextmanager
from datetime import datetime, timezone

import pytest
from job_files import PARTITIONS, TASKS, JobFolder, number

from samzapy.admin.positions import write_startpoints
from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, change_columns
from samzapy.checkpoint.records import read_changelog_partitions, read_owner
from samzapy.container.supervision.job_records import open_job
from samzapy.dataframe.partition_writer import PartitionWritten, writer_id
from samzapy.dataframe.reading import job_tasks, worker_error
from samzapy.dataframe.writing import (
    ChangelogWrite,
    checkpoint_updates,
    commit_positions,
    end_attempts,
    own,
    starting_positions,
    writable_store,
)
from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    JobTakenOver,
    OffsetOutOfRange,
    ProducerFenced,
    RecordRefused,
    SerdeError,
)
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

VIEWS = [SystemStreamPartition("local", "views", partition) for partition in range(PARTITIONS)]


@contextmanager
def opened(job: JobFolder):
    with open_job(job.config, "test") as (clients, checkpoints):
        yield clients, checkpoints, job_tasks(job.config, clients, checkpoints)


def write_of(job: JobFolder, tasks, clients) -> ChangelogWrite:
    return ChangelogWrite(job.config.stores["counts"], tasks.names, PARTITIONS, clients, 60.0)


def never(seconds: float) -> None:
    raise AssertionError("nothing to wait for")


def test_a_changelog_with_a_value_is_refused_with_its_offset_unless_it_is_to_be_overwritten(job):
    with opened(job) as (clients, _, tasks):
        bootstrap = write_of(job, tasks, clients)
        bootstrap.check_changelog(overwrite=False)
        job.append(1, (b"/gone", None))
        bootstrap.check_changelog(overwrite=False)
        job.append(1, (b"/a", number(1)))
        bootstrap.check_changelog(overwrite=True)
        with pytest.raises(EnvironmentFailure) as refused:
            bootstrap.check_changelog(overwrite=False)
    assert str(refused.value) == (
        "local.counts-log[1]@1: the changelog of store 'counts' is not empty; overwriting (overwrite=True, "
        "--overwrite) replaces what it holds"
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"stores.counts.changelog": ""}, "stores.counts.changelog: is required: what is written goes there"),
        (
            {"stores.counts.factory": "heap", "stores.counts.key.serde": "", "stores.counts.msg.serde": ""},
            "stores.counts.factory: has an encoding of its own; only key-value stores",
        ),
    ],
)
def test_a_store_that_no_frame_can_fill_is_refused(tmp_path, keys, message):
    job = JobFolder(tmp_path, **keys)
    with pytest.raises(ConfigError) as refused:
        writable_store(job.config, "counts")
    assert message in str(refused.value)


def test_who_writes_owns_the_job_and_writes_down_what_its_first_start_would(job):
    with opened(job) as (clients, checkpoints, tasks):
        run = own(job.config, clients, checkpoints, tasks, "", never)
        assert read_owner(checkpoints) == run
        assert read_changelog_partitions(checkpoints) == {name: partition for partition, name in TASKS.items()}
    prepared = prepare(job.config, until_end=True)
    assert {task.name: task.changelog_partition for task in prepared.model.tasks} == {
        name: partition for partition, name in TASKS.items()
    }
    assert prepared.run_id != run.id


def test_positions_are_those_of_a_move_for_all_inputs_or_for_some(job):
    noon = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)
    with closing(job.factory.producer(job.settings, "test")) as producer:
        for hour in range(3):
            at = int(noon.timestamp() * 1000) + hour * 3_600_000
            producer.send([OutgoingRecord("views", b"/a", b"{}", n, timestamp=at) for n in range(PARTITIONS)])
        producer.flush()
    with opened(job) as (clients, _, tasks):

        def found(wanted):
            return starting_positions(job.config, clients, tasks, wanted)

        assert found("upcoming") == dict.fromkeys(VIEWS, 3)
        assert found("2013-01-01T13:00:00Z") == dict.fromkeys(VIEWS, 1)
        assert found({"local.views[1]": "2"}) == {VIEWS[1]: 2}
        assert found({"local.views": "oldest", "local.views[0]": "newest"}) == {VIEWS[0]: 2, VIEWS[1]: 0}
        with pytest.raises(ConfigError, match=r"positions: an input of the job \(local.views\)"):
            found({"local.other": "oldest"})
        with pytest.raises(ConfigError, match="position: oldest, newest, upcoming"):
            found("tomorrow")
        with pytest.raises(OffsetOutOfRange, match=r"local.views\[0\]@9"):
            found("9")


def test_the_first_start_begins_at_the_positions_and_an_older_checkpoint_keeps_what_was_not_named(job):
    job.append(0, (b"/a", b"{}"), (b"/a", b"{}"), (b"/a", b"{}"), stream="views")
    written = [PartitionWritten(0, 1, 0, 7), PartitionWritten(1, 0, 0, -1)]
    with opened(job) as (clients, checkpoints, tasks):
        run = own(job.config, clients, checkpoints, tasks, "", never)
        checkpoints.write({"Partition 0": Checkpoint({VIEWS[0]: 1}, {"other": 5}, epoch=3)})
        updates = checkpoint_updates(job.config, job.config.stores["counts"], tasks, {VIEWS[1]: 0}, written)
        commit_positions(job.config, clients, checkpoints, run.id, updates)
        first, second = (checkpoints.read([name])[name] for name in TASKS.values())
        assert (first.input_offsets, first.changelog_offsets, first.epoch) == (
            {VIEWS[0]: 1},
            {"other": 5, "counts": 7},
            3,
        )
        assert (second.input_offsets, second.changelog_offsets) == ({VIEWS[1]: 0}, {})


def test_a_job_that_was_filled_and_positioned_restores_it_and_processes_what_is_left(job):
    job.append(0, *[(b"/a", b"{}")] * 3, stream="views")
    # The positions are the later request.
    write_startpoints(job.config, prepare(job.config).model, "oldest", ())
    job.append(0, (b"/a", number(40)))
    with opened(job) as (clients, checkpoints, tasks):
        run = own(job.config, clients, checkpoints, tasks, "", never)
        starts, written = {VIEWS[0]: 1, VIEWS[1]: 0}, [PartitionWritten(0, 1, 0, 0)]
        updates = checkpoint_updates(job.config, job.config.stores["counts"], tasks, starts, written)
        commit_positions(job.config, clients, checkpoints, run.id, updates)
    outcome = LocalRunner().run(prepare(job.config, until_end=True), RunOptions())
    assert outcome.status.processed == 2
    assert job.committed(0)[-1] == (b"/a", number(42))


def test_no_position_is_committed_once_a_run_of_the_job_has_started(job):
    with opened(job) as (clients, checkpoints, tasks):
        run = own(job.config, clients, checkpoints, tasks, "", never)
        own(job.config, clients, checkpoints, tasks, "", never)
        with pytest.raises(JobTakenOver):
            commit_positions(job.config, clients, checkpoints, run.id, {"Partition 0": Checkpoint({VIEWS[0]: 0})})
        assert checkpoints.read(["Partition 0"])["Partition 0"] is None


def test_what_failed_attempts_left_open_is_aborted_but_nobody_is_fenced_who_owns_the_job(job):
    name = writer_id(job.config.job_name, 0)
    with (
        opened(job) as (clients, checkpoints, tasks),
        closing(job.factory.producer(job.settings, "t", name)) as attempt,
    ):
        run = own(job.config, clients, checkpoints, tasks, "", never)
        attempt.init_transactions()
        attempt.begin()
        attempt.send_columns(change_columns("counts-log", 0, [(b"/a", number(1))]))
        attempt.flush()
        end_attempts(job.config, run.id, TASKS, "local")
        with pytest.raises(ProducerFenced):
            attempt.commit()
        assert job.committed(0) == []
        own(job.config, clients, checkpoints, tasks, "", never)
        with closing(job.factory.producer(job.settings, "t", name)) as successor:
            successor.init_transactions()
            successor.begin()
            successor.send_columns(change_columns("counts-log", 0, [(b"/b", number(1))]))
            end_attempts(job.config, run.id, TASKS, "local")
            successor.commit()
    assert job.committed(0) == [(b"/b", number(1))]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("Job aborted\nsamzapy.errors.SerdeError: store 's': no\n\tat java.lang", SerdeError, "store 's': no"),
        ("  x\nsamzapy.errors.RecordTooLarge: t[0]: record of 9 B\n", RecordRefused, "t[0]: record of 9 B"),
        ("samzapy.errors.JobTakenOver: another run\n", EnvironmentFailure, "another run"),
        ("Job aborted:\n  worker lost", EnvironmentFailure, "Spark gave up: Job aborted: worker lost"),
    ],
)
def test_what_spark_says_of_a_failed_action_becomes_the_workers_error_in_one_line(text, kind, message):
    found = worker_error(RuntimeError(text))
    assert (type(found), str(found)) == (kind, message)
