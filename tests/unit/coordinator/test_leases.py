import pytest

from samzapy.coordinator.leases import ContainerState, Leases
from samzapy.job.lease import Directive
from samzapy.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock(1_000_000)


@pytest.fixture
def leases(clock):
    return Leases(["0", "1"], 15.0, clock)


def test_epochs_grow_within_a_millisecond_and_when_the_clock_is_set_back(leases, clock):
    first = leases.grant("0")
    second = leases.grant("0")
    clock.set_wall(clock.wall_ms() - 500_000)
    third = leases.grant("1")
    assert first == 1_000_000
    assert first < second < third


def test_epochs_grow_across_a_restart_of_the_driver(leases, clock):
    last = [leases.grant("0") for _ in range(100)][-1]
    clock.advance(1)
    assert Leases(["0"], 15.0, clock).grant("0") > last


def test_a_new_registration_supersedes_the_older_attempt_at_its_next_report(leases):
    old = leases.grant("0")
    new = leases.grant("0")
    assert leases.renew("0", old) is Directive.ABANDON
    assert leases.renew("0", new) is Directive.CONTINUE
    assert leases.standing("0").attempts == 2


def test_after_a_stop_every_report_is_answered_stop_also_to_those_who_register_later(leases):
    early = leases.grant("0")
    leases.stopping = True
    late = leases.grant("1")
    assert leases.renew("0", early) is Directive.STOP
    assert leases.renew("1", late) is Directive.STOP


def test_a_container_that_is_done_stays_done_when_time_goes_by(leases, clock):
    epoch = leases.grant("0")
    leases.finish("0", epoch, ContainerState.DONE)
    clock.advance_to(100.0)
    leases.renew("0", epoch)
    assert leases.standing("0").state is ContainerState.DONE


def test_what_a_superseded_attempt_says_about_its_end_does_not_count(leases):
    old = leases.grant("0")
    leases.grant("0")
    leases.finish("0", old, ContainerState.LOST)
    assert leases.standing("0").state is ContainerState.RUNNING


def test_a_released_attempt_is_asked_to_stop_and_its_successor_and_the_others_are_not(leases):
    epoch, other = leases.grant("0"), leases.grant("1")
    leases.release("0")
    assert leases.renew("0", epoch) is Directive.STOP
    assert leases.renew("1", other) is Directive.CONTINUE
    assert leases.renew("0", leases.grant("0")) is Directive.CONTINUE


def test_a_standing_has_state_attempts_and_epoch(leases, clock):
    epoch = leases.grant("0")
    assert leases.standing("1") == (ContainerState.WAITING, 0, None)
    clock.advance_to(14.9)
    assert leases.standing("0") == (ContainerState.RUNNING, 1, epoch)
    clock.advance_to(15.0)
    assert leases.standing("0") == (ContainerState.LOST, 1, epoch)
    leases.finish("0", epoch, ContainerState.DONE)
    assert leases.standing("0") == (ContainerState.DONE, 1, epoch)


def test_only_expired_leases_without_a_report_of_their_end_are_overdue(leases, clock):
    first, second = leases.grant("0"), leases.grant("1")
    assert leases.overdue == ()
    clock.advance_to(10.0)
    leases.renew("1", second)
    clock.advance_to(15.0)
    assert leases.overdue == ("0",)
    leases.renew("0", first)
    assert leases.overdue == ()
    clock.advance_to(25.0)
    assert leases.overdue == ("1",)
    clock.advance_to(30.0)
    assert leases.overdue == ("0", "1")
    leases.finish("1", second, ContainerState.LOST)
    leases.grant("0")
    assert leases.overdue == ()


def test_an_expired_attempt_with_a_greater_epoch_is_still_lost(leases, clock):
    epoch = leases.grant("0")
    clock.advance_to(15.0)
    assert leases.overdue == ("0",)
    grown = leases.outgrow("0", epoch, 2_000_000)
    assert leases.standing("0") == (ContainerState.LOST, 1, grown)
    assert leases.renew("0", grown) is Directive.CONTINUE
    assert leases.standing("0") == (ContainerState.RUNNING, 1, grown)
