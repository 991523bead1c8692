"""A copy of a store, with the functions that Spark would call, called here."""

import json
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from job_files import TASKS, JobFolder, number

from samzapy.api.checkpoint import Checkpoint, JobRecord
from samzapy.api.task import StreamTask
from samzapy.config.loader import load_job
from samzapy.container.supervision.job_records import open_job
from samzapy.dataframe.copying import OldChangelog, RecordCopier, StoreCopy, copied_keys, switch
from samzapy.dataframe.partition_writer import PartitionWriter
from samzapy.dataframe.reading import TravellingJob
from samzapy.dataframe.writing import ChangelogWrite, own_for_write
from samzapy.errors import ConfigError, EnvironmentFailure, ForeignRecords, JobTakenOver, SerdeError, StateLost
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.storage.changelog.topic import ensure_changelog

NEW = "counts-v2"
JSON = {"msg.serde": "json"}


@dataclass
class Total:
    total: int


def to_total(key, value):
    return None if key == "/b" else (key, {"total": value})


def no_pair(key, value):
    return value


def picky(key, value):
    raise ValueError("not\nthis one")


class CopiedJob(JobFolder):
    """A job that has counted three pages, and has ended."""

    def __init__(self, folder, **keys):
        super().__init__(folder, **keys)
        self.create_log()
        self.view("/a", "/a", "/b", partition=0)
        self.view("/c", partition=1)
        self.run()

    def view(self, *pages, partition):
        self.append(partition, *[(page.encode(), b"{}") for page in pages], stream="views")

    def run(self, **keys):
        config = load_job({**self.keys, **keys})
        LocalRunner().run(prepare(config, until_end=True), RunOptions())

    def copy(self, changes=JSON, **options):
        keys = copied_keys("counts", f"local.{NEW}", changes)
        return StoreCopy(self.config, load_job({**self.keys, **keys}), "counts", **options)

    def keys_of(self, changes=JSON):
        return copied_keys("counts", f"local.{NEW}", changes)

    def values(self, stream=NEW):
        state = {}
        for partition in TASKS:
            state |= self.committed(partition, stream)
        return {key.decode(): json.loads(value) for key, value in state.items() if value is not None}


@pytest.fixture
def job(tmp_path):
    made = CopiedJob(tmp_path)
    yield made
    made.admin.close()


@contextmanager
def copying(copy):
    """Steps 1 to 3, and what is needed for the others."""
    before, after = copy.stores
    with open_job(copy.job, "test") as (clients, checkpoints):
        source = OldChangelog.find(copy.job, before, clients, checkpoints)
        write = ChangelogWrite(after, source.tasks, source.partitions, clients, 60.0)
        write.check_changelog(overwrite=copy.overwrite)
        claim = own_for_write(copy.job, clients, checkpoints, source.tasks, "", lambda _: None)
        yield source, write, claim, clients, checkpoints


def converted(copy, source, clients, checkpoints, limit=None):
    parts = source.parts(clients, checkpoints)
    jobs = TravellingJob(copy.job.raw, None), TravellingJob(copy.target.raw, None)
    return list(RecordCopier(*jobs, "counts", copy.convert, parts, limit).records(range(len(parts))))


def copied(copy, until=6):
    with copying(copy) as (source, write, claim, clients, checkpoints):
        records = sorted(converted(copy, source, clients, checkpoints), key=lambda record: record[0])
        ensure_changelog(clients.admin("local"), copy.stores[1], source.partitions)
        travelling = TravellingJob(copy.target.raw, None)
        timed = copy.target.stores["counts"].ttl_ms is not None
        writer = PartitionWriter(travelling, "counts", TASKS, claim.run.id, copy.overwrite, 60_000, timed)
        written = [
            part
            for partition in TASKS
            for part in writer.write(partition, [record for record in records if record[0][0] == partition])
        ]
        write.adopt(checkpoints, written)
        if until == 6:
            switch(copy, copy.stores[1], claim, source, written, clients, checkpoints)
        return written


@pytest.mark.parametrize("transactions", ["true", "false"])
def test_a_job_continues_on_the_copy_with_equal_state_and_another_serde(tmp_path, transactions):
    job = CopiedJob(tmp_path, **{"task.state.transactions": transactions})
    copied(job.copy())
    assert job.values() == {"/a": 2, "/b": 1, "/c": 1}
    job.view("/a", partition=0)
    job.run(**job.keys_of())
    assert job.values() == {"/a": 3, "/b": 1, "/c": 1}
    assert dict(job.committed(0)) == {b"/a": number(2), b"/b": number(1)}, "the old changelog is unchanged"
    with pytest.raises(ConfigError, match=r"the store was copied to local\.counts-v2"):
        prepare(job.config, until_end=True)


def test_the_copy_of_a_changelog_that_has_grown_has_a_partition_per_task(job):
    job.admin.grow("counts-log", 4)
    with pytest.raises(EnvironmentFailure, match=r"has 4 partitions, .*: samzapy store copy .* counts --to"):
        job.run()
    copied(job.copy())
    job.view("/a", partition=0)
    job.run(**job.keys_of())
    assert job.values() == {"/a": 3, "/b": 1, "/c": 1}


def test_before_the_switch_the_old_changelog_is_in_use_and_the_copy_is_repeated(job):
    copied(job.copy(), until=5)
    job.view("/a", partition=0)
    job.run()
    with pytest.raises(
        EnvironmentFailure, match=r"local.counts-v2\[0\]@0: the changelog of store 'counts' is not empty"
    ):
        copied(job.copy())
    copied(job.copy(overwrite=True))
    job.view("/c", partition=1)
    job.run(**job.keys_of())
    assert job.values() == {"/a": 3, "/b": 1, "/c": 2}


def test_after_the_switch_a_start_with_the_old_changelog_is_refused(job):
    copied(job.copy({}))
    with pytest.raises(ConfigError) as refused:
        prepare(job.config, until_end=True)
    assert str(refused.value) == (
        "stores.counts.changelog: the store was copied to local.counts-v2, where its state is now: "
        "name it, with the serdes of the copy, got 'local.counts-log'"
    )
    job.run(**job.keys_of({}))


def test_a_copy_back_needs_an_overwrite_and_keeps_what_was_added(job):
    copied(job.copy({}))
    job.view("/d", partition=0)
    job.run(**job.keys_of({}))
    back = StoreCopy(load_job({**job.keys, **job.keys_of({})}), job.config, "counts", overwrite=True)
    copied(back)
    job.run()
    with open_job(job.config, "test") as (_, checkpoints):
        assert checkpoints.read_record(JobRecord.COPIED).newest == {"stores": {"counts": "local.counts-log"}}
    assert dict(job.committed(0))[b"/d"] == number(1)


def test_a_run_that_takes_the_job_over_leaves_the_old_changelog_in_use(job):
    copy = job.copy()
    with copying(copy) as (source, _, claim, clients, checkpoints):
        own_for_write(copy.job, clients, checkpoints, source.tasks, "", lambda _: None)
        with pytest.raises(JobTakenOver):
            switch(copy, copy.stores[1], claim, source, [], clients, checkpoints)
        assert checkpoints.read_record(JobRecord.COPIED).newest is None
        assert checkpoints.read(["Partition 0"])["Partition 0"].serdes["counts"] == ("string", "long")


def test_a_changelog_with_records_of_another_writer_is_not_copied(job):
    job.append(0, (b"/z", number(9)))
    with pytest.raises(ForeignRecords, match="holds a record of another writer"):
        copied(job.copy())


@pytest.mark.parametrize("written", [({"counts": 99}, {}), ({"counts": 0}, {"changelog_ids": {"counts": "earlier"}})])
def test_a_changelog_that_lacks_committed_records_is_not_copied(job, written):
    offsets, more = written
    with copying(job.copy()) as (source, _, _, clients, checkpoints):
        known = checkpoints.read(["Partition 0"])["Partition 0"]
        checkpoints.write({"Partition 0": Checkpoint(known.input_offsets, offsets, known.epoch, **more)})
        with pytest.raises(StateLost):
            source.parts(clients, checkpoints)


def test_a_function_changes_entries_and_leaves_some_out(job):
    copied(job.copy(convert=f"{__name__}:to_total"))
    assert job.values() == {"/a": {"total": 2}, "/c": {"total": 1}}


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        ("no_pair", SerdeError, "returned 2, expected (key, value), or None to leave the entry out"),
        ("picky", SerdeError, "test_store_copies:picky failed (ValueError: not this one)"),
    ],
)
def test_an_entry_that_does_not_fit_is_named_by_its_record(job, function, error, message):
    copy = job.copy(convert=f"{__name__}:{function}")
    with copying(copy) as (source, _, _, clients, checkpoints), pytest.raises(error) as refused:
        converted(copy, source, clients, checkpoints)
    assert str(refused.value).startswith("local.counts-log[0]@0: store 'counts': key '/a': ")
    assert message in str(refused.value)


def test_objects_of_the_old_class_become_plain_values_and_tuples_stay_keys(tmp_path):
    kept = {f"stores.counts.{leaf}.serde": "json" for leaf in ("key", "msg")}
    classes = {"task.class": f"{__name__}:PutTotals", "stores.counts.msg.type": f"{__name__}:Total"}
    job = CopiedJob(tmp_path, **kept, **classes)
    copied(job.copy({"msg.serde": "msgpack"}))
    assert dict(job.committed(1, NEW)) == {b'["/c",[1]]': b"\x81\xa5total\x01"}


class PutTotals(StreamTask):
    """Puts objects under keys that json gives back as lists."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put((envelope.key, (1,)), Total(1))


def test_entries_with_a_time_to_live_keep_the_times_of_their_puts(tmp_path):
    job = CopiedJob(tmp_path, **{"stores.counts.rocksdb.ttl.ms": "86400000"})
    copied(job.copy())

    def times(stream):
        with open_job(job.config, "test") as (clients, _):
            consumer = clients.consumer("local")
            consumer.start({job.ssp(1, stream): 0})
            times = [time for batch in consumer.poll(1.0, 100) for time in batch.timestamps]
            consumer.close()
            return times

    assert times(NEW) == times("counts-log")


@pytest.mark.parametrize(
    ("changes", "to", "message"),
    [
        ({}, "local.counts-log", "--to: is the changelog that the store has: a copy needs another one"),
        ({"rocksdb.ttl.ms": "1000"}, "local.new", "a copy can neither add a time to live nor drop one"),
        ({"factory": "heap", "key.serde": "", "msg.serde": ""}, "local.new", "only key-value stores"),
    ],
)
def test_a_copy_that_cannot_be_is_refused(job, changes, to, message):
    target = load_job({**job.keys, **copied_keys("counts", to, changes)})
    with pytest.raises(ConfigError) as refused:
        _ = StoreCopy(job.config, target, "counts").stores
    assert message in str(refused.value)
