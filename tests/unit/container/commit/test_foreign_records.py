"""Records that somebody else writes to a changelog never become state without a word."""

import json
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from jobs.memory_job import GUARANTEES, MemoryJob
from rigs.in_between import first

from samzapy.admin.running import NO_DRIVER
from samzapy.admin.take_over import adopt
from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint.records import Adopted, adopt_ends, read_owner, write_owner
from samzapy.cli.main import main
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import open_job
from samzapy.errors import ForeignRecords, JobTakenOver, StateLost
from samzapy.failpoints import arm
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

COMMIT_MS = {"task.commit.ms": "30000"}
CHANGELOG = SystemStreamPartition("mem", "counts-changelog", 0)


def job_with(folder, guarantee="at-least-once", **keys):
    job = MemoryJob(folder, partitions=1, **{"task.guarantee": guarantee, **COMMIT_MS, **keys})
    job.send(*((0, "a", {"id": number}) for number in range(3)))
    return job


def write_as_somebody_else(job, key="a", value=100):
    job.producer.send([OutgoingRecord("counts-changelog", key.encode(), json.dumps(value).encode(), 0)])
    job.producer.flush()


def abort_as_somebody_else(job):
    settings = job.config.systems["mem"]
    with closing(system_factory(settings).producer(settings, "test", "somebody-else")) as producer:
        producer.init_transactions()
        producer.begin()
        producer.send([OutgoingRecord("counts-changelog", b"a", b"100", 0)])
        producer.flush()
        producer.abort()


def end_run(job):
    """As if the last run's process were gone, so that tools may work on the job."""
    with open_job(job.config, "test") as (_, checkpoints):
        owner = read_owner(checkpoints)
        write_owner(checkpoints, replace(owner, pid=NO_DRIVER))


def end(job):
    return job.admin.offsets([CHANGELOG])[CHANGELOG].upcoming


def files_of(folder):
    return sorted(path.name for path in (folder / "counting-1" / "counts").iterdir())


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("local", [True, False])
def test_a_foreign_record_of_before_the_start_is_refused_at_the_start(tmp_path, guarantee, local):
    job = job_with(tmp_path / "here", guarantee)
    job.run()
    at = end(job)
    write_as_somebody_else(job)
    folder = tmp_path / ("here" if local else "elsewhere")
    with pytest.raises(ForeignRecords, match=rf"mem.counts-changelog\[0\]@{at}: .* store 'counts' .* store adopt"):
        job.run(**{"job.logged.store.base.dir": str(folder)})


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("step", ["commit.1", "commit.5"])
def test_a_foreign_record_in_a_run_ends_it_and_sets_the_store_aside(tmp_path, guarantee, step):
    job = job_with(tmp_path, guarantee)
    # After the commit that says where it begins, and before the one of its work; then right behind that one's records.
    arm(step, 2, lambda _: write_as_somebody_else(job))
    job.send((0, "a", {"id": 3, "do": "commit"}), (0, "a", {"id": 4, "do": "commit"}))
    with pytest.raises(ForeignRecords, match=r"mem.counts-changelog\[0\]@\d+"):
        job.run()
    assert any("foreign" in name for name in files_of(tmp_path))
    with pytest.raises(ForeignRecords):
        job.run()


# In the place of a control record: between the records of a commit and the end of its transaction.
@pytest.mark.parametrize(("step", "transactions"), [("commit.5a", "true"), ("commit.1", "false")])
def test_a_foreign_record_is_found_while_the_job_runs(tmp_path, step, transactions):
    job = job_with(tmp_path, **{"task.state.transactions": transactions})
    arm(step, 2, lambda _: write_as_somebody_else(job))
    job.send((0, "a", {"id": 3, "do": "commit"}), (0, "a", {"id": 4}))
    with pytest.raises(ForeignRecords):
        job.run()


def test_a_job_file_copied_with_its_changelogs_is_refused_before_it_writes(tmp_path):
    job = job_with(tmp_path)
    job.run()
    streams = job.admin.list_streams()
    with pytest.raises(ForeignRecords, match=r"counts-changelog\[0\]@0: .* has none of it.* leave the store out"):
        prepare(load_job(job.flat | {"job.name": "copied"}))
    assert job.admin.list_streams() == streams


def test_adopted_foreign_records_become_state(tmp_path):
    job = job_with(tmp_path)
    job.run()
    write_as_somebody_else(job, value=100)
    end_run(job)
    assert adopt(job.config, ["counts"]) == {"counts": {0: end(job)}}
    job.send((0, "a", {"id": 3}))
    job.run()
    assert job.changelog() == {"a": 101}
    write_as_somebody_else(job, value=7)
    with pytest.raises(ForeignRecords):
        job.run()


def test_what_is_adopted_at_once_is_merged_by_topic_and_partition():
    a, b = ("mem.a", "1"), ("mem.b", "1")
    before = Adopted({a: {0: 5, 1: 5}, b: {0: 5}})
    first, second = Adopted({a: {0: 9, 1: 5}, b: {0: 5}}), Adopted({a: {0: 7, 1: 6, 2: 1}, b: {0: 5}})
    both = Adopted({a: {0: 9, 1: 6, 2: 1}, b: {0: 5}})
    assert Adopted.merged([before, first, second]) == Adopted.merged([before, second, first]) == both
    anew = Adopted({a: {0: 5, 1: 5}, ("mem.b", "2"): {0: 1}})
    assert Adopted.merged([before, anew, first]) == Adopted({a: {0: 9, 1: 5}, ("mem.b", "2"): {0: 1}})
    assert Adopted.merged([]) == Adopted()


def test_ends_that_are_adopted_at_once_are_all_recorded(tmp_path, monkeypatch):
    job = MemoryJob(tmp_path)
    other = {SystemStream("mem", "b"): ("1", {0: 7})}
    with open_job(job.config, "test") as (_, checkpoints), open_job(job.config, "other") as (_, beside):
        first(monkeypatch, Adopted, "merged", lambda: adopt_ends(beside, other))
        checkpoints.start()
        adopt_ends(checkpoints, {SystemStream("mem", "a"): ("1", {0: 5})})
        found = Adopted.from_json(checkpoints.read_record(JobRecord.ADOPTED).newest)
    assert found == Adopted({("mem.a", "1"): {0: 5}, ("mem.b", "1"): {0: 7}})


def test_what_was_adopted_says_nothing_of_a_changelog_made_anew(tmp_path):
    job = job_with(tmp_path, **{"task.checkpoint.factory": "topic"})
    prepare(job.config)
    write_as_somebody_else(job)
    end_run(job)
    adopt(job.config, [])
    job.admin.delete("counts-changelog")
    job.container()
    write_as_somebody_else(job)
    with pytest.raises(ForeignRecords):
        job.run()


def test_transactions_that_another_has_aborted_before_and_in_a_run_leave_nothing_foreign(tmp_path):
    job = job_with(tmp_path)
    job.run()
    abort_as_somebody_else(job)
    arm("commit.1", 2, lambda _: abort_as_somebody_else(job))
    job.send((0, "a", {"id": 3, "do": "commit"}), (0, "a", {"id": 4}))
    job.run()
    assert job.changelog() == {"a": 5}


def test_a_changelog_created_again_and_longer_is_refused_until_adopted(tmp_path):
    job = job_with(tmp_path)
    job.run()
    job.admin.delete("counts-changelog")
    job.admin.create(StreamSpec("counts-changelog", 1, {"cleanup.policy": "compact"}))
    end_run(job)
    with pytest.raises(StateLost, match=r"counts-changelog\[0\] ends before offset 0, the last checkpoint is at 0"):
        adopt(job.config, [])
    abort_as_somebody_else(job)
    with pytest.raises(StateLost, match=r"is of another stream, the last checkpoint is at 0: .* named another before"):
        job.run()
    end_run(job)
    adopt(job.config, [])
    job.send((0, "a", {"id": 3}))
    job.run()
    assert job.changelog() == {"a": 1}


def test_a_successors_records_are_not_foreign_to_a_late_restore(tmp_path):
    job = job_with(tmp_path / "old")
    job.run()
    job.send((0, "a", {"id": 3}))
    old, _ = job.container(owned=True, **{"job.logged.store.base.dir": str(tmp_path / "late")})
    # The old attempt has read its checkpoint when another run takes over, commits and ends.
    elsewhere = {"job.logged.store.base.dir": str(tmp_path / "new")}
    arm("start.3", 1, lambda _: job.run(**elsewhere))
    with pytest.raises(JobTakenOver):
        old.run()
    assert job.changelog() == {"a": 4}


def test_a_checkpoint_outside_transactions_says_nothing_of_foreign_records(tmp_path):
    """As JVM Samza leaves it, which goes on writing to the changelog after its last checkpoint."""
    job = job_with(tmp_path / "here")
    job.run()
    with open_job(job.config, "test") as (_, checkpoints):
        old = checkpoints.read(["Partition 0"])["Partition 0"]
        checkpoints.write({"Partition 0": Checkpoint(old.input_offsets, {}, old.epoch)})
    write_as_somebody_else(job, value=100)
    job.send((0, "a", {"id": 3}))
    job.run(**{"job.logged.store.base.dir": str(tmp_path / "elsewhere")})
    assert job.changelog() == {"a": 101}


def test_check_names_the_foreign_records_and_the_command_that_adopts_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = job_with(tmp_path)
    job.run()
    copied = tmp_path / "copied.properties"
    copied.write_text("".join(f"{key}={value}\n" for key, value in {**job.flat, "job.name": "copied"}.items()))
    monkeypatch.setattr(sys, "argv", ["samzapy", "check", str(copied)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert "samzapy store adopt JOB.properties counts" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["samzapy", "store", "adopt", str(copied), "counts"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "counts: all records of its changelog before [0]@" in capsys.readouterr().out
    prepare(load_job(job.flat | {"job.name": "copied"}))
