"""The evidence that a changelog still holds the state of an earlier commit, over random histories and cleanings."""

from contextlib import closing

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.replay.history import CommittedRecords, lost_state
from samzapy.system.local.factory import MemoryCluster, MemorySystemFactory

SSP = SystemStreamPartition("mem", "log", 0)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
COMMITS = st.dictionaries(KEYS, st.one_of(st.none(), st.binary(min_size=1, max_size=1)), min_size=1)
#: A commit's changes, or a cleaning that reaches the present end.
EVENTS = st.lists(st.one_of(COMMITS, st.just("clean")), min_size=1, max_size=10)


class Log:
    """A changelog with the history of a task's commits."""

    def __init__(self, *, retention_ms="0", transactions=True):
        MemoryCluster.reset_all()
        self.settings = SystemSettings("mem", "memory", properties={"cluster": "evidence"})
        self.factory = MemorySystemFactory()
        self.admin = self.factory.admin(self.settings, "test")
        config = {"cleanup.policy": "compact", "delete.retention.ms": retention_ms}
        self.admin.create(StreamSpec("log", 1, config))
        self.producer = self.factory.producer(self.settings, "test", "id" if transactions else None)
        if transactions:
            self.producer.init_transactions()
        self.transactions = transactions
        self.retention_ms = retention_ms
        #: By commit, its last offset and the state then.
        self.commits = []
        self.state = {}

    def commit(self, changes):
        if self.transactions:
            self.producer.begin()
        self.producer.send([OutgoingRecord("log", key, value, 0) for key, value in changes.items()])
        last = self.producer.flush()
        if self.transactions:
            self.producer.commit()
        self.state = {key: value for key, value in {**self.state, **changes}.items() if value is not None}
        self.commits.append((last["log", 0], dict(self.state)))

    def lost(self, last, *, known=True):
        ends = {each + 1 for each, _ in self.commits} if known and self.transactions else set()
        log = self.admin.offsets([SSP])[SSP]
        state = CommittedRecords(SSP, 0, last, ends)
        return lost_state(
            lambda _: self.factory.consumer(self.settings, "test"), state, log, deletions_kept=self.retention_ms != "0"
        )

    def fold(self, last):
        found = []
        with closing(self.factory.consumer(self.settings, "test")) as consumer:
            consumer.start({SSP: 0})
            for batch in consumer.poll(0, 10_000):
                found += zip(batch.offsets, batch.keys, batch.values, strict=True)
        newest = {key: value for offset, key, value in found if offset <= last}
        return {key: value for key, value in newest.items() if value is not None}


def played(events, **how):
    log = Log(**how)
    for event in events:
        if event == "clean":
            log.admin.compact("log")
        else:
            log.commit(event)
    return log


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS, st.booleans(), st.booleans(), st.sampled_from(["0", "1000000"]))
def test_a_state_that_is_not_refused_is_that_of_the_commit(events, transactions, known, retention_ms):
    log = played(events, transactions=transactions, retention_ms=retention_ms)
    for last, state in log.commits:
        if log.lost(last, known=known) is None:
            assert log.fold(last) == state


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS)
def test_without_a_cleaning_every_known_commit_is_there(events):
    log = played([event for event in events if event != "clean"])
    assert [log.lost(last) for last, _ in log.commits] == [None] * len(log.commits)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS)
def test_the_last_commit_is_there_after_any_cleaning(events):
    log = played(events)
    assert [log.lost(last) for last, _ in log.commits[-1:]] == [None] * len(log.commits[-1:])


def test_the_reason_names_the_missing_offset_and_how_many_keys_are_in_doubt():
    log = played([{b"a": b"1"}, {b"b": b"1"}, {b"a": b"2", b"c": b"1"}, "clean"])
    last, _ = log.commits[1]
    reason = log.lost(last)
    assert reason is not None
    assert f"mem.log[0]@{last}" in reason
    assert "offset 0 is missing, and 2 keys" in reason


def test_a_deletion_that_has_expired_leaves_a_doubt():
    log = played([{b"a": None}, {b"b": b"1"}, {b"b": None}, "clean"])
    assert "deletions after it have expired" in str(log.lost(log.commits[1][0]))
