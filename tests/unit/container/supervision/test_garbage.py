"""The garbage collector while a container processes."""

import gc

import pytest

from samzapy.container.supervision.worker_process import tuned_for_messages


@pytest.fixture(params=[(700, 10, 10), (0, 10, 10)], ids=["on", "off"])
def thresholds(request):
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield request.param
    gc.set_threshold(*before)


def test_it_runs_less_often_than_before_unless_it_is_switched_off_and_afterwards_as_before(thresholds):
    with tuned_for_messages():
        inside = gc.get_threshold()
    assert inside[0] > thresholds[0] if thresholds[0] else inside == thresholds
    assert gc.get_threshold() == thresholds


def test_what_is_there_at_the_start_is_not_looked_at_until_the_end():
    before = gc.get_threshold()
    gc.set_threshold(700)
    try:
        with tuned_for_messages():
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() == 0
    finally:
        gc.set_threshold(*before)
