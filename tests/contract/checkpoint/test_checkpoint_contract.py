"""One contract for every place checkpoints are kept: a topic on any system, and files."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from system_under_test import SystemUnderTest
from systems import SYSTEMS

from samzapy.api.checkpoint import Checkpoint, JobRecord, JobRun, SenderState
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import codec
from samzapy.checkpoint.codec import CHECKPOINT, SAMZA_CHECKPOINT, RecordKey, encode_key
from samzapy.checkpoint.managers import FileCheckpointManager, TopicCheckpointManager
from samzapy.checkpoint.records import (
    peek_owner,
    peek_owners,
    read_changelog_partitions,
    read_owner,
    write_changelog_partitions,
    write_owner,
)
from samzapy.clock import SYSTEM_CLOCK
from samzapy.errors import EnvironmentFailure, RestoreError
from samzapy.testing import ManualClock

SSP = SystemStreamPartition("kafka", "orders", 0)


def topic_manager(system, stream, heard=lambda consumer: consumer, clock=SYSTEM_CLOCK, **more):
    """`heard` may put something before the manager's consumers."""
    spec = StreamSpec(stream, 1, {"cleanup.policy": "compact"})
    consumer = lambda: heard(system._kept(system.factory.consumer(system.settings, "checkpoints")))  # noqa: E731
    # Managers may be in several threads, a client in one.
    admin = system._kept(system.factory.admin(system.settings, "checkpoints"))
    clients = SimpleNamespace(
        admin=lambda _: admin, consumer=lambda _: consumer(), producer=lambda _: system.producer()
    )
    return TopicCheckpointManager(system.name, spec, clients, clock=clock, **more)


@pytest.fixture
def stream():
    return f"checkpoints-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(system, stream):
    """Makes managers of one and the same topic."""
    return lambda: topic_manager(system, stream)


@pytest.fixture(params=["files", *SYSTEMS.values()])
def new_manager(request, tmp_path, stream):
    """Makes managers of one and the same job."""
    if request.param == "files":
        yield lambda: FileCheckpointManager(tmp_path / "job-1")
        return
    system = SystemUnderTest(request.param(request))
    yield lambda: topic_manager(system, stream)
    system.close()


def test_a_task_that_never_committed_has_no_checkpoint(new_manager):
    manager = new_manager()
    assert manager.read(["Partition 0"])["Partition 0"] is None
    manager.start()
    assert manager.read(["Partition 0"])["Partition 0"] is None
    assert read_changelog_partitions(manager) == {}
    manager.close()


def test_checkpoints_of_many_tasks_are_read_together(new_manager):
    manager = new_manager()
    assert manager.read(["Partition 0"]) == {"Partition 0": None}
    manager.start()
    manager.write({"Partition 0": Checkpoint({SSP: 1}), "Partition 1": Checkpoint({SSP: 7})})
    manager.write({"Partition 0": Checkpoint({SSP: 2})})
    found = manager.read(name for name in ("Partition 0", "Partition 2"))
    assert found == {"Partition 0": Checkpoint({SSP: 2}), "Partition 2": None}
    manager.close()


def test_reads_of_one_pass_agree_whatever_is_written_meanwhile(topic):
    writer, other = topic(), topic()
    writer.start()
    writer.write({"t": Checkpoint({SSP: 1})})
    with other.one_pass():
        writer.write({"t": Checkpoint({SSP: 2}), "u": Checkpoint({SSP: 3})})
        writer.write_record(JobRecord.DRAIN, {"run": "r"})
        assert other.read(["t"])["t"].input_offsets == {SSP: 1}
        assert other.read(["t", "u"])["u"] is None
        assert other.read_record(JobRecord.DRAIN).newest is None
    assert other.read(["t"])["t"].input_offsets == {SSP: 2}
    assert other.read_record(JobRecord.DRAIN).newest == {"run": "r"}
    other.close()


def test_the_newest_checkpoint_of_each_task_is_read_by_a_successor(new_manager):
    manager = new_manager()
    manager.start()
    manager.write({"Partition 0": Checkpoint({SSP: 1}), "Partition 1": Checkpoint({SSP: 7})})
    manager.write({"Partition 0": Checkpoint({SSP: 2}, {"counts": 5}, 3, 4, 6)})
    manager.close()
    successor = new_manager()
    successor.start()
    assert successor.read(["Partition 0"])["Partition 0"] == Checkpoint({SSP: 2}, {"counts": 5}, 3, 4, 6)
    assert successor.read(["Partition 1"])["Partition 1"] == Checkpoint({SSP: 7})
    successor.close()


def test_what_was_written_is_read_back_by_the_writer(new_manager):
    manager = new_manager()
    manager.start()
    assert manager.read(["Partition 0"])["Partition 0"] is None
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    assert manager.read(["Partition 0"])["Partition 0"] == Checkpoint({SSP: 1})
    manager.write({"Partition 0": Checkpoint({SSP: 2})})
    assert manager.read(["Partition 0"])["Partition 0"] == Checkpoint({SSP: 2})
    manager.close()


def test_changelog_partitions_are_kept_beside_the_checkpoints(new_manager):
    manager = new_manager()
    manager.start()
    write_changelog_partitions(manager, {"Partition 0": 0})
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    write_changelog_partitions(manager, {"Partition 0": 0, "Partition 1": 1})
    manager.close()
    successor = new_manager()
    assert read_changelog_partitions(successor) == {"Partition 0": 0, "Partition 1": 1}
    successor.close()


def test_a_record_that_is_no_checkpoint_is_named(system, topic, stream):
    manager = topic()
    manager.start()
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    key = encode_key(RecordKey(CHECKPOINT, "Partition 0"), "partition")
    producer = system.producer()
    producer.send([OutgoingRecord(stream, key, b"{}", 0)])
    producer.flush()
    with pytest.raises(RestoreError, match=rf"^{system.name}\.{stream}\[0\]@1: not a checkpoint"):
        manager.read(["Partition 0"])["Partition 0"]
    manager.close()


def test_a_topic_that_cannot_keep_checkpoints_is_refused(system, topic, stream):
    manager = topic()
    system.admin.create(StreamSpec(stream, 1, {"cleanup.policy": "delete"}))
    with pytest.raises(EnvironmentFailure, match="must be compact"):
        manager.start()
    manager.close()


def test_a_checkpoint_topic_that_has_grown_keeps_checkpoints_as_before(system, topic, stream):
    system.admin.create(StreamSpec(stream, 3, {"cleanup.policy": "compact"}))
    manager = topic()
    manager.start()
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    assert manager.read(["Partition 0"])["Partition 0"] == Checkpoint({SSP: 1})
    manager.close()


def test_the_run_that_was_written_down_last_owns_the_job(new_manager):
    manager = new_manager()
    assert read_owner(manager) is None
    manager.start()
    assert read_owner(manager) is None
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    write_owner(manager, JobRun("first", 2_000, "here", 1))
    manager.close()
    # By the order of writing: the clock of the second one's machine is behind.
    second = new_manager()
    write_owner(second, JobRun("second", 1_000, "there", 2))
    assert read_owner(manager) == read_owner(second) == JobRun("second", 1_000, "there", 2)
    assert second.read(["Partition 0"])["Partition 0"] == Checkpoint({SSP: 1})
    manager.close()
    second.close()


def test_an_owner_is_seen_by_a_manager_that_has_read_before_it_was_written(new_manager):
    watching = new_manager()
    watching.start()
    assert read_owner(watching) is None
    other = new_manager()
    write_owner(other, JobRun("other", 1, "there", 2))
    assert read_owner(watching) == JobRun("other", 1, "there", 2)
    watching.close()
    other.close()


def test_a_topic_that_was_created_again_is_read_from_its_beginning(system, topic, stream):
    watching = topic()
    watching.start()
    write_owner(watching, JobRun("own", 1, "here", 2))
    assert read_owner(watching).id == "own"
    system.admin.delete(stream)
    topic().start()
    assert read_owner(watching) is None


def test_a_record_and_a_checkpoint_in_a_transaction_count_when_that_does(system, topic):
    manager = topic()
    manager.start()
    producer = system.transactional()
    producer.begin()
    manager.write_record(JobRecord.COPIED, {"stores": {}}, producer)
    manager.write({"Partition 0": Checkpoint({SSP: 1})}, producer)
    producer.commit()
    producer.begin()
    manager.write_record(JobRecord.COPIED, {"stores": {"s": {}}}, producer)
    manager.write({"Partition 0": Checkpoint({SSP: 2})}, producer)
    producer.flush()
    producer.abort()
    assert manager.read_record(JobRecord.COPIED).newest == {"stores": {}}
    assert manager.read(["Partition 0"])["Partition 0"].input_offsets == {SSP: 1}
    manager.close()


def test_an_owner_written_while_a_transaction_was_open_counts(system, topic, stream):
    manager = topic()
    manager.start()
    producer = system.transactional(f"{stream}-writer")
    producer.begin()
    manager.write({"Partition 0": Checkpoint({SSP: 1})}, producer)
    producer.flush()
    write_owner(manager, JobRun("newer", 1, "there", 2))
    # What a newer run does next: it fences, which ends the transaction that hides the record.
    system.transactional(f"{stream}-writer")
    assert read_owner(manager) == JobRun("newer", 1, "there", 2)
    manager.close()


def test_a_record_of_the_job_is_replaced_by_the_next_beside_the_others(new_manager):
    manager = new_manager()
    assert manager.read_record(JobRecord.INPUTS).newest is None
    manager.start()
    manager.write_record(JobRecord.INPUTS, {"inputs": {}})
    manager.write_record(JobRecord.INPUTS, {"inputs": {"kafka.orders": {"first": 4}}})
    manager.write_record(JobRecord.LOCALITY, {"tasks": {"Partition 0": {"host": "a"}}})
    manager.write_record(JobRecord.DRAIN, {"run": "first"})
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    manager.close()
    successor = new_manager()
    assert successor.read_record(JobRecord.INPUTS).newest == {"inputs": {"kafka.orders": {"first": 4}}}
    assert successor.read_record(JobRecord.LOCALITY).newest == {"tasks": {"Partition 0": {"host": "a"}}}
    assert successor.read_record(JobRecord.DRAIN).newest == {"run": "first"}
    assert successor.read(["Partition 0"])["Partition 0"] == Checkpoint({SSP: 1})
    successor.close()


def with_run(run):
    """Adds a run to all that are recorded."""
    return lambda values: {"runs": sorted({run, *(each for value in values for each in value["runs"])})}


def test_a_change_of_a_record_gets_the_newest_value(new_manager):
    manager = new_manager()
    manager.start()
    for run in "abc":
        manager.change_record(JobRecord.DRAIN, with_run(run))
    assert manager.read_record(JobRecord.DRAIN).newest == {"runs": ["a", "b", "c"]}
    manager.close()


def test_changes_of_a_record_at_once_lose_none(new_manager):
    new_manager().start()
    ready = threading.Barrier(4)

    def change(run):
        manager = new_manager()
        ready.wait(30)
        manager.change_record(JobRecord.DRAIN, with_run(run))
        manager.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change, "abcd"))
    assert new_manager().read_record(JobRecord.DRAIN).newest == {"runs": ["a", "b", "c", "d"]}


def test_a_change_between_the_look_and_the_write_of_another_is_kept(topic):
    manager, other = topic(), topic()
    manager.start()
    manager.change_record(JobRecord.DRAIN, with_run("first"))
    calls = []

    def change(values):
        if not calls:
            other.change_record(JobRecord.DRAIN, with_run("meanwhile"))
        calls.append(list(values))
        return with_run("last")(values)

    manager.change_record(JobRecord.DRAIN, change)
    assert manager.read_record(JobRecord.DRAIN).newest == {"runs": ["first", "last", "meanwhile"]}
    assert calls[0] == [{"runs": ["first"]}]
    manager.close()
    other.close()


def test_owners_and_changes_are_read_back_without_a_reading_of_the_topic(system, stream):
    topic_manager(system, stream).start()
    made = []

    def heard(consumer):
        made.append(consumer)
        return consumer

    manager = topic_manager(system, stream, heard)
    assert read_owner(manager) is None
    for name in ("first", "second"):
        write_owner(manager, run(name))
        manager.change_record(JobRecord.DRAIN, with_run(name))
        assert read_owner(manager) == run(name)
    assert manager.read_record(JobRecord.DRAIN).newest == {"runs": ["first", "second"]}
    assert len(made) == 1
    manager.write({"Partition 0": Checkpoint({SSP: 1})})
    assert manager._reader is None, "a container that only commits keeps no consumer"
    manager.close()


def test_event_times_and_senders_come_back_with_the_checkpoint(new_manager):
    said = {"first-1/Partition 0": SenderState(5, 2), "first-1/Partition 1": SenderState(None, 2, ended=True)}
    written = Checkpoint(
        {SSP: 7},
        clock=5,
        event_times={SSP: 1_700_000_000_000},
        senders={SSP: said},
        held_by=f"{SSP} (sender first-1/Partition 0)",
        idle=(f"{SSP} (sender first-1/Partition 1)",),
        told=-1,
        ended_in="5f0c",
    )
    manager = new_manager()
    manager.start()
    manager.write({"Partition 0": written})
    manager.close()
    successor = new_manager()
    assert successor.read(["Partition 0"])["Partition 0"] == written
    successor.close()


def run(name):
    return JobRun(name, 0, "host", 1)


def test_a_look_at_the_owners_ends_before_an_open_transaction(topic, system):
    manager = topic()
    manager.start()
    for name in ("first", "second"):
        write_owner(manager, run(name))
    open_one = system.transactional(f"open-{uuid.uuid4().hex[:8]}")
    open_one.begin()
    manager.write({"Partition 0": Checkpoint({SSP: 1})}, open_one)
    open_one.flush()
    write_owner(manager, run("third"))
    owners, complete = peek_owners(manager)
    if complete:  # embedded systems write at the commit
        assert list(owners) == [run("first"), run("second"), run("third")]
    else:
        assert list(owners) == [run("first"), run("second")]
        assert peek_owner(manager) == (run("second"), False)
    open_one.abort()
    assert read_owner(manager) == run("third"), "waits for the marker of the abort"
    owners, complete = peek_owners(manager)
    assert (list(owners), complete) == ([run("first"), run("second"), run("third")], True)
    manager.close()


class SilentConsumer:
    """A consumer whose first polls bring nothing, each a second long."""

    def __init__(self, consumer, silent, clock):
        self._consumer = consumer
        self._silent = silent
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._consumer, name)

    def position(self, ssp):
        return 0 if self._silent else self._consumer.position(ssp)

    def poll(self, timeout_s, max_records):
        if self._silent:
            self._silent -= 1
            self._clock.advance(1.0)
            return []
        return self._consumer.poll(timeout_s, max_records)


@pytest.mark.parametrize("system", [SYSTEMS["memory"]], indirect=True)  # the silence hides what a system does
@pytest.mark.parametrize(("silent", "found"), [(55, True), (70, False)])
def test_a_broker_that_brings_nothing_for_a_while_hides_no_owner(system, stream, silent, found):
    topic_manager(system, stream).start()
    writer = topic_manager(system, stream)
    write_owner(writer, run("first"))
    clock = ManualClock()
    manager = topic_manager(system, stream, lambda consumer: SilentConsumer(consumer, silent, clock), clock)
    if found:
        assert peek_owner(manager) == (run("first"), True)
        assert manager.read_record(JobRecord.DRAIN, wait=False).newest is None
    else:
        with pytest.raises(RestoreError, match="no record for 60 s"):
            peek_owner(manager)
    manager.close()
    writer.close()


def test_a_superseded_attempt_does_not_win_with_a_record_for_samza(system, stream):
    def manager():
        return topic_manager(system, stream, write_samza=True)

    def samzas(position):
        key = encode_key(RecordKey(SAMZA_CHECKPOINT, "t"), "partition")
        producer = system.producer()
        producer.send([OutgoingRecord(stream, key, codec.encode_samza(Checkpoint({SSP: position})), 0)])
        producer.flush()

    def seen():
        fresh = manager()
        found = fresh.read(["t"])["t"]
        assert found == follower.read(["t"])["t"]
        fresh.close()
        return found.input_offsets[SSP]

    writer, follower = manager(), manager()
    writer.start()
    writer.write({"t": Checkpoint({SSP: 50}, {"counts": 5}, epoch=5)})
    writer.write({"t": Checkpoint({SSP: 40}, {"counts": 4}, epoch=4)})
    assert seen() == 50
    samzas(60)
    assert seen() == 60
    writer.write({"t": Checkpoint({SSP: 41}, {"counts": 4}, epoch=4)})
    assert seen() == 60
    writer.write({"t": Checkpoint({SSP: 70}, {"counts": 7}, epoch=6)})
    assert seen() == 70
    writer.close()
    follower.close()
