"""When a store's files are brought up to date."""

import pytest

from samzapy.storage.kv.uncommitted import InMemoryStorageEngine
from samzapy.storage.store import Flushing
from samzapy.testing import ManualClock


class Slow(InMemoryStorageEngine):
    """An engine whose background work ends when it is told to."""

    def __init__(self):
        super().__init__("s")
        self.calls = []
        self.busy = False

    def flush(self, *, wait=True):
        if not wait and self.busy:
            return False
        self.calls.append("wait" if wait else "begin")
        self.busy = not wait
        return True


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def engine():
    return Slow()


def flushing(engine, clock, interval_ms=10_000):
    return Flushing(engine, interval_ms, clock, 100)


def commits(of, clock, *sizes):
    for size in sizes:
        of.written(size, clock.monotonic())
        of.flush_if_due()


def test_half_the_records_begin_it_and_commits_go_on(engine, clock):
    commits(flushing(engine, clock), clock, 30, 20)
    assert engine.calls == []
    commits(flushing(engine, clock), clock, 30, 21, 40)
    assert engine.calls == ["begin"]


def test_what_is_being_flushed_and_what_came_since_never_pass_the_bound_together(engine, clock):
    of = flushing(engine, clock)
    commits(of, clock, 60, 30)
    assert engine.calls == ["begin"]
    commits(of, clock, 11)
    assert engine.calls == ["begin", "wait"]


def test_the_next_begins_once_the_one_before_is_done(engine, clock):
    of = flushing(engine, clock)
    commits(of, clock, 60, 20)
    engine.busy = False
    commits(of, clock, 10, 20, 60)
    assert engine.calls == ["begin", "begin", "wait"]


def test_half_the_time_begins_it_and_the_whole_waits(engine, clock):
    of = flushing(engine, clock)
    commits(of, clock, 1)
    clock.advance(4.9)
    of.flush_if_due()
    assert engine.calls == []
    clock.advance(0.1)
    of.flush_if_due()
    assert engine.calls == ["begin"]
    commits(of, clock, 1)
    clock.advance(10)
    of.flush_if_due()
    assert engine.calls == ["begin", "wait"]


def test_without_an_interval_every_commit_waits(engine, clock):
    commits(flushing(engine, clock, interval_ms=0), clock, 1, 1)
    assert engine.calls == ["wait", "wait"]


def test_nothing_is_flushed_where_nothing_was_written(engine, clock):
    of = flushing(engine, clock, interval_ms=0)
    clock.advance(100)
    of.flush_if_due()
    assert engine.calls == []
