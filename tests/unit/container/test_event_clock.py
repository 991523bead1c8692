"""A task's clock in event time."""

from samzapy import IncomingMessageEnvelope, SystemStreamPartition
from samzapy.container.event_clock import EventClock

A, B = (SystemStreamPartition("mem", "in", number) for number in range(2))


def at(ssp, *times):
    return [IncomingMessageEnvelope(ssp, offset, None, None, event_time=time) for offset, time in enumerate(times)]


def test_the_clock_is_the_least_of_the_latest_times_of_the_partitions():
    clock = EventClock([A, B])
    assert (clock.passed(A, at(A, 5, 9, 7)), clock.now, clock.holding) == (False, None, B)
    assert (clock.passed(B, at(B, 3)), clock.now, clock.holding) == (True, 3, B)
    assert (clock.passed(B, at(B, 20)), clock.now, clock.holding) == (True, 9, A)


def test_late_messages_and_those_without_a_time_move_nothing():
    clock = EventClock([A])
    clock.passed(A, at(A, 10))
    assert not clock.passed(A, at(A, 4, -1))
    assert not clock.passed(A, [])
    assert clock.now == 10


def test_a_partition_that_ended_or_is_idle_holds_nothing_back_until_it_brings_something():
    clock = EventClock([A, B])
    clock.passed(A, at(A, 10))
    assert (clock.set_aside(B), clock.now) == (True, 10)
    clock.passed(B, at(B, 2))
    assert (clock.passed(A, at(A, 30)), clock.now) == (False, 10)
    assert (clock.advance(B, 12), clock.now) == (True, 12)


def test_a_restart_goes_on_with_the_marks_that_were_kept():
    clock = EventClock([A, B])
    clock.passed(A, at(A, 10))
    clock.passed(B, at(B, 8))
    assert EventClock([A, B], clock.marks).now == 8
    assert EventClock([A], clock.marks).now == 10
