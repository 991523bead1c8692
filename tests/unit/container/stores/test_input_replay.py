"""Stores without a changelog that are rebuilt by reading an input of their task again."""

import shutil
from collections import Counter

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy import InitableTask, SideInputsProcessor, SystemStreamPartition
from samzapy.api.system import OutgoingRecord
from samzapy.failpoints import FailPointReached, arm


class Occurrences(SideInputsProcessor):
    """Makes of an input what ReplayedTask makes of it."""

    def process(self, message, store):
        return [(message.key, (store.get(message.key) or 0) + 1)]


class ReplayedTask(CountingTask, InitableTask):
    """Counts by key in a store without a changelog; notes what is there at its start."""

    def init(self, context):
        super().init(context)
        with self.counts.all() as entries:
            self.calls.append(("found", self.name, dict(entries)))


def messages(n, keys=3, partitions=2):
    return [(i % partitions, f"key-{i % keys}-{i % partitions}", {"id": i}) for i in range(n)]


def counted(sent, partition):
    return dict(Counter(key for number, key, _ in sent if number == partition))


@pytest.fixture
def job(tmp_path):
    return MemoryJob(
        tmp_path / "logged",
        task=ReplayedTask,
        **{
            "job.non-logged.store.base.dir": str(tmp_path / "state"),
            "stores.counts.changelog": "",
            "stores.counts.restore.inputs": "mem.in",
            "stores.counts.restore.inputs.processor.factory": f"{__name__}:Occurrences",
        },
    )


def found(job):
    """What each task found at its last start, by task."""
    return {call[1]: call[2] for call in job.task.calls if call[0] == "found"}


def assert_found(job, sent):
    assert found(job) == {f"Partition {number}": counted(sent, number) for number in (0, 1)}


def sources(report):
    return {source for _, _, source in report.restored.values()}


def test_the_state_comes_back_from_the_input_when_the_files_are_gone(job, tmp_path):
    sent = messages(60)
    job.send(*sent)
    job.run()
    job.send(*messages(20))
    shutil.rmtree(tmp_path / "state")
    report = job.run()
    assert_found(job, sent)
    assert report.restored["Partition 0/counts"][0] == 30
    assert sources(report) == {"inputs"}
    assert report.processed == 20


def test_a_store_on_disk_needs_nothing_after_a_graceful_stop(job):
    sent = messages(60)
    job.send(*sent)
    job.run()
    report = job.run()
    assert_found(job, sent)
    assert [records for records, _, _ in report.restored.values()] == [0, 0]
    assert sources(report) == {"local store"}


@pytest.mark.parametrize("files", [pytest.param("kept", marks=pytest.mark.slow), "lost"])
@pytest.mark.parametrize(
    ("guarantee", "step"), [("at-least-once", 4), ("at-least-once", 5), ("at-least-once", 6), ("exactly-once", 5)]
)
def test_a_crash_in_a_commit_leaves_the_fold_of_the_committed_inputs(job, tmp_path, step, files, guarantee):
    keys = {"task.guarantee": guarantee, "task.commit.ms": "10000"}
    sent = messages(40)
    job.send(*sent)
    arm(f"commit.{step}", nth=2)
    with pytest.raises(FailPointReached):
        job.run(**keys)
    if files == "lost":
        shutil.rmtree(tmp_path / "state")
    job.run(**keys)
    # The first commit says where the tasks start, the second is the one at the end.
    assert_found(job, sent if step >= 5 else [])
    job.run(**keys)
    assert_found(job, sent)


def test_a_task_that_is_set_back_finds_the_state_of_that_position(job):
    job.send(*messages(20))
    job.run()
    state_at_the_reset = {"streams.back.samza.system": "mem", "streams.back.samza.physical.name": "in"}
    reset = {"streams.back.samza.reset.offset": "true", "streams.back.samza.offset.default": "oldest"}
    report = job.run(**state_at_the_reset, **reset)
    assert found(job) == {"Partition 0": {}, "Partition 1": {}}
    assert report.processed == 20
    job.run()
    assert_found(job, messages(20))


def test_files_that_are_behind_what_the_input_still_has_are_not_used(job):
    job.send(*messages(20))
    job.run()
    job.send(*messages(20))
    arm("commit.5")
    with pytest.raises(FailPointReached):
        job.run()
    for number in (0, 1):
        job.admin.delete_records(SystemStreamPartition("mem", "in", number), 15)
    job.run()
    # A hole between the files and what is left of the input: better the fold of what is left than one with a hole.
    assert sum(found(job)["Partition 0"].values()) == 5


def write_bad(job, partition):
    job.producer.send([OutgoingRecord("in", b"bad", b"{bad", partition)])
    job.producer.flush()


@pytest.mark.parametrize("intermediate", ["false", "true"])
def test_an_input_is_replayed_without_the_messages_that_its_policy_skips(job, intermediate):
    job.flat |= {"stores.counts.factory": "inmemory", "task.error.deserialize.policy": "skip"}
    job.flat["systems.mem.streams.in.samza.intermediate"] = intermediate
    sent = messages(20)
    job.send(*sent[:10])
    write_bad(job, 0)
    job.send(*sent[10:])
    write_bad(job, 1)
    job.run()
    job.run()
    assert_found(job, sent)
