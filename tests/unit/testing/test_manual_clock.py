import pytest

from samzapy.testing import ManualClock


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(1_000)
    assert (clock.monotonic(), clock.wall_ms()) == (0.0, 1_000)
    clock.advance(1.5)
    assert (clock.monotonic(), clock.wall_ms()) == (1.5, 2_500)
    clock.advance_to(10)
    assert (clock.monotonic(), clock.wall_ms()) == (10, 11_000)


def test_time_does_not_go_back_but_the_time_of_day_may_be_set():
    clock = ManualClock(1_000)
    clock.advance(5)
    with pytest.raises(ValueError, match="cannot go back to 4"):
        clock.advance_to(4)
    clock.set_wall(7)
    assert (clock.monotonic(), clock.wall_ms()) == (5.0, 7)
    clock.advance(0.001)
    assert clock.wall_ms() == 8
