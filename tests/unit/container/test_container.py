"""A container from start to stop, on the memory system, with real stores."""

from collections import Counter
from contextlib import suppress

import pytest
from jobs.memory_job import CountingTask, MemoryJob

from samzapy import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange, ProducerError, TaskFailed, TaskMigrated
from samzapy.job.lease import Directive
from samzapy.system.local.producer import LogProducer


def messages(n, keys=3, partitions=2):
    return [(i % partitions, f"key-{i % keys}-{i % partitions}", {"id": i}) for i in range(n)]


def expected(sent):
    return dict(Counter(key for _, key, _ in sent))


def test_every_message_is_counted_once_in_store_changelog_and_output(tmp_path):
    job, sent = MemoryJob(tmp_path), messages(100)
    job.send(*sent)
    report = job.run()
    assert (report.phase, report.processed) == ("done", 100)
    assert sorted(message["id"] for _, message in job.outputs()) == list(range(100))
    assert job.changelog() == expected(sent)


def test_a_task_lives_through_init_process_end_and_close_in_this_order(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    job.send((0, "a", {"id": 1}))
    job.run()
    assert job.task.calls == [
        (what, "Partition 0", *at) for what, *at in (["init"], ["process", 0], ["end"], ["close"])
    ]


def test_a_second_run_goes_on_where_the_first_one_stopped(tmp_path):
    job = MemoryJob(tmp_path)
    job.send(*messages(10))
    job.run()
    job.send(*messages(10))
    report = job.run()
    assert report.processed == 10
    assert job.changelog() == expected(messages(10) * 2)
    assert all(records == 0 for records, _, _ in report.restored.values())


def test_state_comes_back_from_the_changelog_when_the_local_files_are_gone(tmp_path):
    job = MemoryJob(tmp_path / "first")
    job.send(*messages(10))
    job.run()
    job.send(*messages(10))
    report = job.run(**{"job.logged.store.base.dir": str(tmp_path / "second")})
    assert job.changelog() == expected(messages(10) * 2)
    assert ({source for _, _, source in report.restored.values()}, report.restoring) == ({"changelog"}, {})


@pytest.mark.parametrize("local", ["kept", "lost"])
def test_a_deleted_changelog_is_refused_and_the_local_store_is_left_alone(tmp_path, local):
    job = MemoryJob(tmp_path)
    job.send(*messages(10))
    job.run()
    job.admin.delete("counts-changelog")
    keys = {"job.logged.store.base.dir": str(tmp_path / "elsewhere")} if local == "lost" else {}
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match="it was deleted or created again, and the state with it"):
            job.run(**keys)
    assert not list(tmp_path.rglob("*.stale-*"))


@pytest.mark.parametrize("step", [1, 3, 5, 6, 7])
def test_a_crash_while_starting_changes_nothing(tmp_path, monkeypatch, step):
    job, sent = MemoryJob(tmp_path), messages(20)
    job.send(*sent)
    monkeypatch.setenv("SAMZAPY_FAIL", f"start.{step}:1:raise")
    with pytest.raises(Exception, match=f"start.{step}"):
        job.run()
    monkeypatch.delenv("SAMZAPY_FAIL")
    assert job.run().processed == 20
    assert job.changelog() == expected(sent)


@pytest.mark.parametrize("order", ["commit", "commit-all"])
def test_a_commit_is_the_containers_and_is_made_before_the_next_message(tmp_path, order):
    job = MemoryJob(tmp_path)
    job.send((0, "b", {"id": 0}))
    job.run()
    job.send((0, "b", {"id": 1}), (1, "a", {"id": 2, "do": order}), (1, "a", {"id": 3, "do": "fail"}))
    with pytest.raises(TaskFailed):
        job.run()
    committed = job.changelog()
    assert committed["a"] == 1
    # Whether the other task had processed its message by then is up to the order of the poll.
    assert committed["b"] in {1, 2}


def test_a_shutdown_of_all_tasks_stops_the_container_with_a_commit(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    job.send((0, "a", {"id": 1, "do": "shutdown"}), (0, "a", {"id": 2}))
    container, _ = job.container(until_end=False)
    assert container.run().processed == 1
    assert job.changelog() == {"a": 1}
    assert job.run().processed == 1


def test_a_container_that_lost_its_lease_lets_go_without_a_commit(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    job.send(*messages(5, partitions=1))
    container, coordinator = job.container(until_end=False)
    coordinator.register("0")
    with pytest.raises(TaskMigrated, match="newer attempt"):
        container.run()
    assert job.changelog() == {}


def test_records_purged_with_the_lease_are_reported_as_the_lost_lease(tmp_path, monkeypatch):
    job = MemoryJob(tmp_path, partitions=1)
    job.send(*messages(5, partitions=1))
    container, coordinator = job.container()

    def purged(producer):
        coordinator.register("0")
        with suppress(TaskMigrated):
            container._current._heartbeat.confirm()
        raise ProducerError("mem.out[0]: record of 9 B was not acknowledged: Local: Purged in queue")

    monkeypatch.setattr(LogProducer, "flush", purged)
    with pytest.raises(TaskMigrated, match="a newer attempt runs this container") as raised:
        container.run()
    assert isinstance(raised.value.__cause__, ProducerError)


def test_a_committed_offset_that_retention_has_taken_fails_with_the_repair(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    job.send(*messages(10, partitions=1))
    job.run()
    job.send(*messages(10, partitions=1))
    job.admin.delete_records(SystemStreamPartition("mem", "in", 0), 15)
    with pytest.raises(OffsetOutOfRange, match=r"mem\.in\[0\]@10: the log holds offsets 15 to 20 .*reset\.offset=true"):
        job.run()
    repair = {
        "systems.mem.streams.in.samza.reset.offset": "true",
        "systems.mem.streams.in.samza.offset.default": "oldest",
    }
    assert job.run(**repair).processed == 5


def test_a_task_ahead_of_another_in_a_broadcast_gets_nothing_twice(tmp_path):
    job = MemoryJob(tmp_path, **{"task.broadcast.inputs": "mem.rules#0"})
    job.admin.create(StreamSpec("rules", 1))
    job.send((0, "rule", {"id": 1}), stream="rules")
    job.container(tasks=1)[0].run()
    job.send((0, "rule", {"id": 2}), stream="rules")
    job.run()
    processed = [call[1:] for call in CountingTask.calls if call[0] == "process"]
    assert sorted(processed) == [(f"Partition {task}", offset) for task in range(2) for offset in range(2)]


def test_a_small_budget_of_uncommitted_bytes_commits_early(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, **{"stores.counts.uncommitted.max.bytes": "64"})
    job.send(*[(0, f"key-{i}", {"id": i}) for i in range(3_000)])
    report = job.run()
    assert report.commits > 2
    assert len(job.changelog()) == 3_000


def test_directives_of_the_coordinator_reach_the_container(tmp_path):
    job = MemoryJob(tmp_path, partitions=1)
    container, coordinator = job.container(until_end=False)
    coordinator.stop()
    assert container.run().phase == "done"
    assert Directive.STOP is not Directive.ABANDON


def test_at_most_once_repeats_nothing_after_a_commit_amid_a_poll(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, **{"task.guarantee": "at-most-once"})
    job.send((0, "a", {"id": 0}))
    job.run()
    ids = [{"id": 1}, {"id": 2, "do": "commit"}, {"id": 3}, {"id": 4, "do": "fail"}, {"id": 5}]
    job.send(*[(0, "a", message) for message in ids])
    with pytest.raises(TaskFailed):
        job.run()
    job.run()
    processed = [offset for what, _, offset in (call for call in job.task.calls if call[0] == "process")]
    assert len(processed) == len(set(processed)), "processed twice"


def test_a_graceful_stop_of_at_most_once_loses_nothing(tmp_path):
    job = MemoryJob(tmp_path, partitions=1, **{"task.guarantee": "at-most-once"})
    job.send((0, "a", {"id": 0}), (0, "a", {"id": 1, "do": "shutdown"}), (0, "a", {"id": 2}))
    job.run()
    job.run()
    assert [call[2] for call in job.task.calls if call[0] == "process"] == [0, 1, 2]
