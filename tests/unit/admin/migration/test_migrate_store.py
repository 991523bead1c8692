"""A store of a stopped job is rewritten with other serdes, and the job goes on with it."""

import json
import tempfile
from pathlib import Path

import pytest
from jobs.migrating_job import COUNTS, JSON, LONG, TRANSACTIONS, Count, MigratingJob

from samzapy.admin.take_over import adopt
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.checkpoint.records import read_owner
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, EnvironmentFailure, ForeignRecords, SerdeError
from samzapy.replay.plan import Request, plan_replay
from samzapy.runner.prepare import prepare
from samzapy.system.memory.cluster import MemoryCluster

MODULE = "jobs.migrating_job"
MORE = [(0, "a"), (1, "e"), (1, "f")]
AFTER = {**COUNTS, (0, "a"): 3, (1, "e"): 2, (1, "f"): 1}


@pytest.mark.parametrize("transactions", TRANSACTIONS)
def test_the_job_goes_on_with_the_migrated_store_and_only_with_its_new_serdes(tmp_path, transactions):
    job = MigratingJob(tmp_path, transactions=transactions)
    done = job.migrate()
    assert sum(each.counts.rewritten for each in done.partitions) == len(COUNTS)
    assert job.documents() == COUNTS
    with pytest.raises(ConfigError, match=r"the store was written with json, this is long: .*samzapy store migrate"):
        prepare(load_job(job.flat))
    job.end_run()
    job.send(MORE)
    job.run(**JSON)
    assert job.documents() == AFTER


def test_a_job_with_checkpoints_in_files_is_migrated_as_well(tmp_path):
    files = {"task.checkpoint.factory": "file", "task.checkpoint.path": str(tmp_path / "checkpoints")}
    job = MigratingJob(tmp_path / "state", **files)
    job.migrate({**JSON, **files})
    job.send(MORE)
    job.run(**JSON)
    assert job.documents() == AFTER


@pytest.mark.parametrize("elsewhere", [True, False])
def test_files_with_the_old_serdes_are_set_aside_wherever_the_next_start_finds_them(tmp_path, elsewhere):
    job = MigratingJob(tmp_path / "here")
    if elsewhere:
        # The command sees the folder of this machine only.
        job.migrate({**JSON, "job.logged.store.base.dir": str(tmp_path / "there")})
    else:
        job.migrate()
    report = job.run(**JSON)
    assert {source for _, _, source in report.restored.values()} == {"changelog"}
    aside = [path.name for path in (tmp_path / "here").glob("counting-1/counts/*.stale-*")]
    assert len(aside) == 2
    assert job.documents() == COUNTS


def test_files_whose_serdes_stay_read_the_rewritten_entries_from_the_tail(tmp_path):
    job = MigratingJob(tmp_path, **JSON)
    job.migrate(JSON, convert=f"{MODULE}:doubled")
    report = job.run(**JSON)
    assert {source for _, _, source in report.restored.values()} == {"local store + changelog"}
    job.send([(0, "aa"), (0, "b")])
    job.run(**JSON)
    assert job.documents() == {(0, "aa"): 5, (0, "b"): 1, (0, "cc"): 2, (1, "dd"): 4, (1, "ee"): 2}


@pytest.mark.parametrize("transactions", TRANSACTIONS)
def test_a_function_changes_keys_and_values_and_deletes_entries(tmp_path, transactions):
    job = MigratingJob(tmp_path, transactions=transactions)
    done = job.migrate(convert=f"{MODULE}:doubled")
    assert [each.counts.deleted for each in done.partitions] == [1, 0]
    assert job.documents() == {(0, "aa"): 4, (0, "cc"): 2, (1, "dd"): 4, (1, "ee"): 2}
    job.compact()
    job.run(**JSON)
    assert job.documents() == {(0, "aa"): 4, (0, "cc"): 2, (1, "dd"): 4, (1, "ee"): 2}


def test_a_function_gets_the_old_objects_and_returns_those_of_the_new_class(tmp_path):
    typed = {**JSON, "stores.counts.msg.type": f"{MODULE}:Count"}
    job = MigratingJob(tmp_path)
    with pytest.raises(SerdeError, match=r"key 'a'.*expected Count, got dict"):
        job.migrate(typed, convert=f"{MODULE}:as_documents")
    job.migrate(JSON, convert=f"{MODULE}:as_documents")
    assert job.documents()[0, "a"] == {"total": 2}
    # The class now reads these documents, so nothing is left to do.
    with pytest.raises(ConfigError, match="nothing changes"):
        job.migrate(typed)


def test_documents_change_their_format_and_objects_their_class_without_a_function(tmp_path):
    job = MigratingJob(tmp_path)
    job.migrate(JSON, convert=f"{MODULE}:as_documents")
    packed = {"stores.counts.msg.serde": "msgpack", "stores.counts.msg.type": f"{MODULE}:Count"}
    job.migrate(packed)
    job.migrate(JSON, source={"msg.serde": "msgpack", "msg.type": f"{MODULE}:Count"})
    assert job.documents()[0, "a"] == {"total": 2, "since": Count(2).since}


FOUND: dict[str, set[str]] = {}


def noting_the_files(key, value):
    """Notes the partitions whose old contents are on the disk while an entry of this key's letter is converted."""
    folders = Path(tempfile.gettempdir()).glob("samzapy-migrate-*/counts/*")
    FOUND.setdefault(key[0], set()).update(path.name for path in folders)
    return key, value


def test_the_old_contents_of_one_partition_at_a_time_are_on_the_disk(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    messages = [(partition, f"{letter}{number}") for partition, letter in enumerate("ad") for number in range(1_001)]
    FOUND.clear()
    MigratingJob(tmp_path / "state", messages=messages).migrate(convert=f"{__name__}:noting_the_files")
    assert {"a": {"0"}, "d": {"1"}} == FOUND


def test_keys_change_their_serde_and_the_old_ones_are_deleted(tmp_path):
    job = MigratingJob(tmp_path)
    job.migrate({**LONG, "stores.counts.key.serde": "json"})
    assert set(job.longs()) == {(partition, json.dumps(key)) for partition, key in COUNTS}


def test_entries_keep_the_times_of_their_puts_in_a_store_with_a_time_to_live(tmp_path):
    ttl = {"stores.counts.rocksdb.ttl.ms": "86400000"}
    job = MigratingJob(tmp_path, **ttl)
    before = times_by_key(job)
    job.migrate({**JSON, **ttl})
    assert times_by_key(job) == before
    job.run(**JSON)
    assert job.documents() == COUNTS


def times_by_key(job):
    cluster = MemoryCluster.named(job.flat["systems.mem.cluster"])
    found = {}
    for number in range(2):
        batch = cluster.everything(SystemStreamPartition("mem", "counts-changelog", number))
        found.update(zip(batch.keys, batch.timestamps, strict=True))
    return found


@pytest.mark.parametrize("transactions", TRANSACTIONS)
def test_a_task_that_has_never_committed_gets_its_entries_back_as_well(tmp_path, transactions):
    job = MigratingJob(tmp_path, transactions=transactions, messages=[(0, "a")])
    job.job.producer.send([OutgoingRecord("counts-changelog", b"x", (7).to_bytes(8, "big"), 1)])
    job.job.producer.flush()
    adopt(job.job.config, ["counts"])
    job.migrate()
    job.send([(1, "x")])
    job.run(**JSON)
    assert job.documents() == {(0, "a"): 1, (1, "x"): 8}


def test_a_replay_from_a_commit_before_the_migration_needs_the_old_job_file(tmp_path):
    job = MigratingJob(tmp_path, partitions=1, messages=[(0, "a"), (0, "b")])
    job.migrate()
    job.send([(0, "a")])
    job.run(**JSON)
    config = load_job({**job.flat, **JSON})
    assert plan_replay(config, Request("2")).checkpoint.serdes == {"counts": ("string", "json")}
    with pytest.raises(ConfigError, match="the store was written with long, this is json"):
        plan_replay(config, Request("1"))


# What does not fit.


def test_an_entry_that_does_not_fit_stops_the_migration_before_anything_is_written(tmp_path):
    job = MigratingJob(tmp_path)
    before = job.job.read("counts-changelog")
    place = r"^mem\.counts-changelog\[0\]@\d+: key 'a': jobs.migrating_job:picky refuses it \(ValueError: no a here\)"
    with pytest.raises(SerdeError, match=f"{place} .*the first of 2 entries.*nothing was changed"):
        job.migrate(convert=f"{MODULE}:picky")
    assert job.job.read("counts-changelog") == before
    job.send(MORE)
    job.run()
    assert job.longs() == AFTER


def test_a_dry_run_counts_and_names_the_entries_that_do_not_fit_and_owns_nothing(tmp_path):
    job = MigratingJob(tmp_path)
    with job.checkpoints() as checkpoints:
        owner = read_owner(checkpoints)
    before = job.job.read("counts-changelog")
    done = job.migrate(convert=f"{MODULE}:picky", dry_run=True)
    assert [(each.counts.entries, each.counts.misfits) for each in done.partitions] == [(3, 1), (2, 1)]
    offsets = {str(misfit).split(":")[0] for misfit in done.misfits}
    assert offsets == {f"mem.counts-changelog[{n}]@{last_of(job, n, key)}" for n, key in ((0, b"a"), (1, b"e"))}
    assert job.job.read("counts-changelog") == before
    with job.checkpoints() as checkpoints:
        assert read_owner(checkpoints) == owner


def last_of(job, partition, key):
    cluster = MemoryCluster.named(job.flat["systems.mem.cluster"])
    batch = cluster.everything(SystemStreamPartition("mem", "counts-changelog", partition))
    return max(offset for offset, own in zip(batch.offsets, batch.keys, strict=True) if own == key)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("one_key", "becomes b'same', which another entry has become already"),
        ("no_pair", r"gave 2, expected \(key, value\), or None to delete the entry"),
    ],
)
def test_a_function_that_loses_entries_or_gives_no_pair_is_refused(tmp_path, function, reason):
    job = MigratingJob(tmp_path)
    with pytest.raises(SerdeError, match=reason):
        job.migrate(convert=f"{MODULE}:{function}")


def test_entries_may_exchange_their_keys_only_in_a_transaction(tmp_path):
    job = MigratingJob(tmp_path / "one", messages=[(0, "a"), (0, "a"), (0, "b")])
    job.migrate(convert=f"{MODULE}:exchanged")
    assert job.documents() == {(0, "b"): 2, (0, "a"): 1}
    job = MigratingJob(tmp_path / "two", transactions=False, messages=[(0, "a"), (0, "a"), (0, "b")])
    with pytest.raises(SerdeError, match="the key of another entry now; without transactions a crash could lose"):
        job.migrate(convert=f"{MODULE}:exchanged")


def test_a_value_that_the_old_serde_does_not_read_is_named_with_its_place(tmp_path):
    job = MigratingJob(tmp_path)
    job.job.producer.send([OutgoingRecord("counts-changelog", b"bad", b"three", 0)])
    job.job.producer.flush()
    with pytest.raises(ForeignRecords, match="store adopt"):
        job.migrate()
    adopt(job.job.config, ["counts"])
    at = last_of(job, 0, b"bad")
    with pytest.raises(SerdeError, match=rf"\[0\]@{at}: value of key 'bad': long serde needs 8 bytes, got 5; nothing"):
        job.migrate()


def test_a_record_that_the_changelog_does_not_take_is_found_before_anything_is_written(tmp_path):
    job = MigratingJob(tmp_path, **{"stores.counts.changelog.max.message.bytes": "200"})
    with pytest.raises(
        SerdeError, match=r"key 'a': record of 103 B > 72 B, the max.message.bytes of the changelog less"
    ):
        job.migrate(convert=f"{__name__}:grown")


def grown(key, value):
    return key, "x" * 100


def test_a_job_that_runs_is_refused(tmp_path):
    job = MigratingJob(tmp_path)
    prepare(job.job.config)
    with pytest.raises(EnvironmentFailure, match="is running; stop it first"):
        job.migrate()
    done = job.migrate(dry_run=True)
    assert sum(each.counts.rewritten for each in done.partitions) == len(COUNTS)


def test_a_job_that_has_never_started_has_nothing_to_migrate(tmp_path):
    job = MigratingJob(tmp_path)
    with pytest.raises(EnvironmentFailure, match=r"job other .* has never started"):
        job.migrate({**JSON, "job.name": "other"})


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"stores.counts.changelog": ""}, r"stores\.counts\.changelog: is required"),
        ({"task.checkpoint.factory": "none"}, "the job keeps no positions"),
    ],
)
def test_a_store_without_a_changelog_and_a_job_without_checkpoints_are_refused(tmp_path, keys, problem):
    job = MigratingJob(tmp_path)
    with pytest.raises(ConfigError, match=problem):
        job.migrate({**JSON, **keys})
