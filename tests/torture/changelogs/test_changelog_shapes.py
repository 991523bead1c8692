"""Changelogs in every shape a real Kafka may leave them in: restored to their end, or refused with the reason."""

import uuid
from contextlib import closing

import pytest
from changelog_rig import ChangelogRig
from crash_job import CrashJob, measured
from live_ledger import DEADLINE_S, kafka_keys
from rigs.kafka_cluster import grow_topic

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.errors import EnvironmentFailure, OffsetOutOfRange, RetriableError
from samzapy.system.kafka import KafkaSystemFactory

pytestmark = pytest.mark.kafka
ABC = [("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")]


@pytest.fixture
def rig(kafka, tmp_path):
    with closing(ChangelogRig(kafka, tmp_path)) as made:
        yield made


def some_id():
    return uuid.uuid4().hex


def empty(rig):
    rig.create()


def commit_marker_last(rig):
    rig.create()
    rig.write(ABC, some_id())


def aborted_transaction_last(rig):
    rig.create()
    rig.write(ABC, some_id())
    rig.write([("a", "no"), ("d", "no")], some_id(), end="abort")


def nothing_but_aborted_transactions(rig):
    rig.create()
    for _ in range(3):
        rig.write(ABC, some_id(), end="abort")


def begins_later(rig):
    rig.create()
    rig.write(ABC)
    rig.forget(2)
    rig.expected.pop("b")


def emptied(rig):
    rig.create()
    rig.write(ABC, some_id())
    rig.forget(len(ABC) + 1)
    rig.expected.clear()


def all_compacted(rig):
    rig.create(segment_ms="200", min_cleanable_dirty_ratio="0.01", delete_retention_ms="0", max_compaction_lag_ms="200")
    for number in range(5):
        rig.write([(key, f"{number}") for key in "abcdefgh"], some_id())
        rig.write([(key, None) for key in "abcd"], some_id())
    deadline = SYSTEM_CLOCK.monotonic() + DEADLINE_S
    while rig.records() > 20:
        assert SYSTEM_CLOCK.monotonic() < deadline, f"{rig.records()} records are left"
        # The segment that is written to is never compacted: a record closes it.
        rig.write([("z", "1")])


def open_transaction_of_a_dead_producer(rig):
    rig.create()
    rig.write(ABC)
    rig.write([("a", "open")], some_id(), end=None)
    rig.write([("d", "behind it")])


SHAPES = [
    empty,
    commit_marker_last,
    aborted_transaction_last,
    nothing_but_aborted_transactions,
    begins_later,
    emptied,
    all_compacted,
    open_transaction_of_a_dead_producer,
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_restore_ends_and_is_complete_whatever_the_changelog_looks_like(rig, shape, outcome):
    shape(rig)
    began = SYSTEM_CLOCK.monotonic()
    found, result = rig.restored()
    expected = rig.contents()
    outcome(
        "restore from a changelog of odd shape",
        guarantee="any",
        system="kafka",
        events=result.records,
        faults=1,
        lost=len(expected.keys() - found.keys()),
        duplicated=0,
        mismatches=sum(1 for key in found if found[key] != expected.get(key)),
        recovery_s=SYSTEM_CLOCK.monotonic() - began,
    )


def test_a_changelog_that_lost_what_the_store_has_not_seen_is_refused(rig):
    rig.create()
    rig.write(ABC)
    assert rig.restored(committed=3)[0] == rig.contents()
    rig.write([("d", "1"), ("e", "1"), ("f", "1")])
    rig.forget(4)
    assert rig.restored(committed=6)[0] == rig.contents()
    rig.write([("g", "1"), ("h", "1"), ("i", "1")])
    rig.forget(9)
    with pytest.raises(EnvironmentFailure, match=r"begins at offset 9 instead of 0: records were deleted from it"):
        rig.restored(committed=9)


def test_a_changelog_cut_during_its_restore_is_refused_by_the_next(rig):
    rig.create()
    rig.write([(f"key-{number}", "x" * 1000) for number in range(20_000)])

    class Cutting:
        """Cuts the log when the first records have been read."""

        def __init__(self, consumer):
            self._consumer = consumer

        def poll(self, timeout_s, max_records):
            if found := self._consumer.poll(timeout_s, 100):
                rig.forget(20_000)
            return found

        def __getattr__(self, name):
            return getattr(self._consumer, name)

    with pytest.raises(RetriableError, match="the log holds offsets 20000 to 20000"):
        rig.restored(wrap=Cutting)
    with pytest.raises(EnvironmentFailure, match="begins at offset 20000 instead of 0"):
        rig.restored(committed=19_999)


@pytest.fixture
def job(kafka, tmp_path):
    made = []

    def make(guarantee, partitions=2):
        made.append(CrashJob(kafka_keys(kafka), some_id()[:8], tmp_path / "state", guarantee, partitions))
        made[-1].flat["task.commit.ms"] = "3000"
        made[-1].flat["task.transaction.timeout.ms"] = "4000"
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("local", ["kept", "lost"])
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_foreign_open_transaction_delays_a_start_and_hides_nothing(job, kafka, tmp_path, guarantee, local, outcome):
    ledger = job(guarantee)
    ledger.send(20)
    ledger.run()
    settings = load_job(ledger.flat).systems["sys"]
    stranger = KafkaSystemFactory().producer(settings, "stranger", some_id(), 5_000)
    stranger.init_transactions()
    stranger.begin()
    stranger.send([OutgoingRecord(f"{ledger.prefix}-changelog", b"key-0-0", b"[-1]", 0)])
    stranger.flush()
    stranger.close()
    ledger.send(20)
    began = SYSTEM_CLOCK.monotonic()
    if local == "lost":
        ledger.flat["job.logged.store.base.dir"] = str(tmp_path / "elsewhere")
    ledger.run()
    outcome(
        "open transaction on the changelog at a start",
        guarantee=guarantee,
        system="kafka",
        events=40,
        faults=1,
        recovery_s=SYSTEM_CLOCK.monotonic() - began,
        **measured(ledger.outputs(), ledger.state(), range(40), guarantee),
    )


def deleted(ledger, kafka):
    ledger.admin.delete(f"{ledger.prefix}-changelog")
    return r"ends before offset 0, the last checkpoint is at \d+: it was deleted or created again"


def recreated(ledger, kafka):
    deleted(ledger, kafka)
    ledger.admin.create(StreamSpec(f"{ledger.prefix}-changelog", 2, {"cleanup.policy": "compact"}))
    return r"ends before offset 0, the last checkpoint is at \d+: it was deleted or created again"


def of_another_policy(ledger, kafka):
    recreated(ledger, kafka)
    ledger.admin.delete(f"{ledger.prefix}-changelog")
    ledger.admin.create(StreamSpec(f"{ledger.prefix}-changelog", 2, {"cleanup.policy": "delete"}))
    return r"must be compact \(is delete\): state would be lost"


def of_other_partitions(ledger, kafka):
    ledger.admin.delete(f"{ledger.prefix}-changelog")
    ledger.admin.create(StreamSpec(f"{ledger.prefix}-changelog", 3, {"cleanup.policy": "compact"}))
    return r"has 3 partitions, job has 2 tasks"


def with_a_grown_input(ledger, kafka):
    grow_topic(kafka, f"{ledger.prefix}-in", 3)
    return r"-in has 3 partitions, the job's state is by 2: expected 2 or a multiple of it"


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize(
    "change", [deleted, recreated, of_another_policy, of_other_partitions, with_a_grown_input], ids=lambda c: c.__name__
)
def test_a_job_whose_changelog_no_longer_fits_is_refused(job, kafka, guarantee, change):
    ledger = job(guarantee)
    ledger.send(20)
    ledger.run()
    message = change(ledger, kafka)
    with pytest.raises(EnvironmentFailure, match=message) as raised:
        ledger.run()
    assert raised.value.exit_code == 3
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once", "effectively-once", "exactly-once"])
def test_inputs_that_retention_took_are_an_error_until_they_are_given_up(job, guarantee, outcome):
    ledger = job(guarantee)
    ledger.send(20)
    ledger.run()
    ledger.send(20)
    for partition in range(2):
        ledger.admin.delete_records(SystemStreamPartition("sys", f"{ledger.prefix}-in", partition), 15)
    with pytest.raises(OffsetOutOfRange, match=r"@10: the log holds offsets 15 to 20 .*reset\.offset=true"):
        ledger.run()
    key = f"systems.sys.streams.{ledger.prefix}-in.samza"
    ledger.flat |= {f"{key}.reset.offset": "true", f"{key}.offset.default": "oldest"}
    ledger.run()
    left = [*range(20), *range(30, 40)]
    outcome(
        "inputs out of retention",
        guarantee=guarantee,
        system="kafka",
        events=len(left),
        faults=1,
        **measured(ledger.outputs(), ledger.state(), left, guarantee),
    )
