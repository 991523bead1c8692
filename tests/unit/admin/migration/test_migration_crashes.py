"""A crash after any step of a migration: the old store is usable, or the migration goes on and no reader sees a
mixture."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from jobs.migrating_job import COUNTS, JSON, LONG, TRANSACTIONS, MigratingJob

from samzapy.admin.store_queries import Question, rebuild_store, store_entries
from samzapy.admin.take_over import adopt
from samzapy.api.system import StreamSpec
from samzapy.cli.main import cli
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, EnvironmentFailure, JobTakenOver, ProducerError, SamzapyError
from samzapy.failpoints import FailPointReached, arm, disarm
from samzapy.runner.prepare import prepare, preparing

MODULE = "jobs.migrating_job"
MORE = [(0, "a"), (1, "f")]
#: What the function `doubled` makes of the counts.
CHANGED = {(0, "aa"): 4, (0, "cc"): 2, (1, "dd"): 4, (1, "ee"): 2}
UNFINISHED = "store 'counts': its migration to msg.serde json began at .* is not complete"

#: Fail points, and which of their passages.
BEFORE = ["migrate.1", "migrate.2", "migrate.3", "migrate.4"]
BETWEEN = [("migrate.5", 1), ("migrate.6a", 1), ("migrate.6b", 1), ("migrate.6", 1), ("migrate.6a", 2), ("migrate.6b", 2), ("migrate.6", 2), ("migrate.7a", 1)]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_armed():
    yield
    disarm()


def crashed(job, point, nth=1, **asked):
    arm(point, nth)
    with pytest.raises(FailPointReached):
        job.migrate(convert=f"{MODULE}:doubled", **asked)


def usable_as_before(job):
    job.send(MORE)
    job.run()
    assert job.longs() == {**COUNTS, (0, "a"): 3, (1, "f"): 1}


@pytest.mark.parametrize("transactions", TRANSACTIONS)
@pytest.mark.parametrize("point", BEFORE)
def test_a_crash_before_anything_is_written_leaves_the_old_store(tmp_path, point, transactions):
    job = MigratingJob(tmp_path, transactions=transactions)
    crashed(job, point)
    usable_as_before(job)


def test_a_crash_in_the_transaction_that_announces_the_migration_leaves_the_old_store(tmp_path):
    job = MigratingJob(tmp_path)
    crashed(job, "migrate.5a")
    usable_as_before(job)


@pytest.mark.parametrize("transactions", TRANSACTIONS)
@pytest.mark.parametrize(("point", "nth"), BETWEEN)
def test_after_a_crash_in_between_no_job_file_reads_the_store_and_the_migration_goes_on(
    tmp_path, point, nth, transactions
):
    job = MigratingJob(tmp_path, transactions=transactions)
    crashed(job, point, nth)
    for keys in (LONG, JSON):
        with pytest.raises(EnvironmentFailure, match=UNFINISHED):
            prepare(load_job({**job.flat, **keys}))
        job.end_run()
    # What is compacted meanwhile is not needed any more.
    job.compact()
    job.migrate(LONG)
    assert job.documents() == CHANGED
    job.send([(0, "aa"), (0, "b")])
    job.run(**JSON)
    assert job.documents() == {**CHANGED, (0, "aa"): 5, (0, "b"): 1}


@pytest.mark.parametrize("transactions", TRANSACTIONS)
def test_a_crash_after_the_end_leaves_the_new_store(tmp_path, transactions):
    job = MigratingJob(tmp_path, transactions=transactions)
    crashed(job, "migrate.7")
    job.run(**JSON)
    assert job.documents() == CHANGED


@pytest.mark.parametrize("transactions", TRANSACTIONS)
def test_a_migration_that_crashes_again_and_again_comes_to_its_end(tmp_path, transactions):
    job = MigratingJob(tmp_path, transactions=transactions)
    for point in ("migrate.5", "migrate.6a", "migrate.6", "migrate.6a", "migrate.6", "migrate.7a"):
        crashed(job, point)
        job.compact()
    job.migrate()
    job.run(**JSON)
    assert job.documents() == CHANGED


def test_no_tool_reads_or_changes_a_store_that_is_being_migrated(tmp_path):
    job = MigratingJob(tmp_path)
    crashed(job, "migrate.6", 1)
    config = job.job.config
    with pytest.raises(EnvironmentFailure, match=UNFINISHED), store_entries(Question(config, "counts")) as entries:
        list(entries.of_range())
    with pytest.raises(
        EnvironmentFailure, match=r"1 of 2 partitions\), so it cannot be read; complete it: samzapy store"
    ):
        rebuild_store(config, "counts", tmp_path / "rebuilt", ())
    with pytest.raises(EnvironmentFailure, match=UNFINISHED):
        adopt(config, ["counts"])


def test_a_migration_goes_on_as_it_began(tmp_path):
    job = MigratingJob(tmp_path)
    crashed(job, "migrate.6", 1)
    others = {"convert": f"{MODULE}:picky", "source": {"msg.serde": "double"}, "target": {"msg.serde": "msgpack"}}
    with pytest.raises(ConfigError) as caught:
        job.migrate(**others)
    assert [problem.key for problem in caught.value.problems] == ["--from msg.serde", "--to msg.serde", "--convert"]
    done = job.migrate(source={"msg.serde": "long"}, convert=f"{MODULE}:doubled")
    assert [each.counts is None for each in done.partitions] == [True, False]
    assert job.documents() == CHANGED


def test_a_migration_of_a_changelog_that_was_made_again_does_not_go_on(tmp_path):
    job = MigratingJob(tmp_path)
    crashed(job, "migrate.6", 1)
    job.job.admin.delete("counts-changelog")
    job.job.admin.create(StreamSpec("counts-changelog", 2, {"cleanup.policy": "compact"}))
    with pytest.raises(
        EnvironmentFailure, match=r"counts\.changelog: a migration of mem\.counts-changelog \(id .* again"
    ):
        job.migrate()


@pytest.mark.parametrize("point", ["migrate.5a", "migrate.5", "migrate.6a"])
def test_a_failure_before_the_first_partition_is_done_takes_everything_back(tmp_path, point):
    def fails(_):
        raise ProducerError("the broker has gone away")

    job = MigratingJob(tmp_path)
    arm(point, 1, fails)
    with pytest.raises(ProducerError, match="gone away"):
        job.migrate()
    usable_as_before(job)


def test_a_failure_after_the_first_partition_leaves_the_migration_to_be_completed(tmp_path):
    def fails(_):
        raise ProducerError("the broker has gone away")

    job = MigratingJob(tmp_path)
    arm("migrate.6a", 2, fails)
    with pytest.raises(ProducerError):
        job.migrate()
    assert "is not complete (1 of 2 partitions)" in job.starts_with(JSON)
    job.migrate()
    assert job.documents() == COUNTS


@pytest.mark.parametrize("transactions", TRANSACTIONS)
@pytest.mark.parametrize("point", ["migrate.3", "migrate.4"])
def test_a_run_that_takes_the_job_over_before_the_migration_is_announced_keeps_the_old_store(
    tmp_path, point, transactions
):
    job = MigratingJob(tmp_path, transactions=transactions)
    arm(point, 1, lambda _: job.job.run())
    job.send(MORE)
    with pytest.raises(JobTakenOver):
        job.migrate()
    job.end_run()
    assert job.longs() == {**COUNTS, (0, "a"): 3, (1, "f"): 1}
    job.migrate()
    assert job.documents() == {**COUNTS, (0, "a"): 3, (1, "f"): 1}


def test_a_start_before_the_migration_is_announced_fences_it_and_the_old_store_is_usable(tmp_path):
    job = MigratingJob(tmp_path)
    starts = []
    arm("migrate.5a", 1, lambda _: starts.append(job.starts_with(LONG)))
    with pytest.raises(SamzapyError, match=r"fenced|taken over"):
        job.migrate()
    assert starts == [True]
    usable_as_before(job)


@pytest.mark.parametrize("point", ["migrate.5", "migrate.6a", "migrate.6b", "migrate.7a"])
def test_a_start_in_the_middle_of_a_migration_is_refused_and_does_not_disturb_it(tmp_path, point):
    refusals = []

    def start(_):
        with pytest.raises(EnvironmentFailure, match=UNFINISHED) as refusal:
            prepare(job.job.config, until_end=True)
        refusals.append(refusal.value)

    job = MigratingJob(tmp_path)
    arm(point, 1, start)
    job.migrate()
    assert len(refusals) == 1
    assert job.documents() == COUNTS


def test_a_migration_that_begins_while_a_run_gets_ready_is_found_when_the_run_claims_the_job(tmp_path):
    job = MigratingJob(tmp_path)
    with preparing(job.job.config) as ready:
        crashed(job, "migrate.6", 1)
        with pytest.raises(EnvironmentFailure, match=UNFINISHED):
            ready.claim()
    job.end_run()
    job.migrate()
    assert job.documents() == CHANGED


def test_a_run_that_has_committed_meanwhile_without_transactions_is_found(tmp_path):
    job = MigratingJob(tmp_path, transactions=False)
    crashed(job, "migrate.5")
    with job.checkpoints() as checkpoints:
        known = checkpoints.read(["Partition 0"])["Partition 0"]
        later = known.changelog_offsets["counts"] + 5
        job.job.send(*((0, "a", {}) for _ in range(6)), stream="counts-changelog")
        checkpoints.write({"Partition 0": replace(known, changelog_offsets={"counts": later})})
    with pytest.raises(EnvironmentFailure, match="a run has committed to store 'counts' since its migration began"):
        job.migrate()


def test_a_check_of_the_job_says_that_a_migration_is_not_complete(tmp_path):
    job = MigratingJob(tmp_path)
    crashed(job, "migrate.5")
    job_file = tmp_path / "job.properties"
    job_file.write_text("".join(f"{key}={value}\n" for key, value in job.flat.items()))
    done = CliRunner().invoke(cli, ["check", str(job_file)])
    assert done.exit_code == 3
    assert "is not complete" in " ".join((done.stdout + done.stderr).split())
