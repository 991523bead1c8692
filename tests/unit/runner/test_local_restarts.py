"""The local runner's ladder: how often, and after which failures, a container is started again."""

import pytest

from samzapy.errors import (
    ConfigError,
    EnvironmentFailure,
    JobFailed,
    JobTakenOver,
    ProducerError,
    RecordTooLarge,
    RestoreError,
    RestoreStalled,
    RetriableError,
    SamzapyError,
    TaskFailed,
    TaskMigrated,
    UnknownStream,
    Unreachable,
)
from samzapy.runner.base import Backoff
from samzapy.runner.local import Restarts
from samzapy.testing.driver import ManualClock

UNREACHABLE = Unreachable("cannot reach b:9092 within 10 s")


class Container:
    """Lasts for some seconds, and then ends, or fails."""

    def __init__(self, clock, lasts_s, failure):
        self._clock, self._lasts_s, self._failure = clock, lasts_s, failure
        self.stopped = False

    def run(self):
        self._clock.advance(self._lasts_s)
        if self._failure is not None:
            raise self._failure

    def stop(self):
        self.stopped = True


class Ladder:
    """Starts the containers of a script, one after another; `told` is what is heard, `waited` the pauses."""

    def __init__(self, *script, limit=8, owned=True, has_run=False):
        self.clock = ManualClock()
        self.told, self.waited = [], []
        self.script = [Container(self.clock, *each) for each in script]
        self.left = list(self.script)
        self.restarts = Restarts(
            build=lambda: self.left.pop(0),
            backoff=Backoff(limit, 1.0, 30.0),
            clock=self.clock,
            note=lambda _: None,
            on_failure=lambda failure, words: self.told.append((failure, words)),
            may_restart=lambda: owned,
            has_run=lambda: has_run,
            wait=self._wait,
        )

    def _wait(self, seconds):
        self.waited.append(seconds)
        self.clock.advance(seconds)

    def run(self):
        self.restarts.run()


def test_a_broker_that_freezes_for_a_while_is_outlasted_with_doubling_pauses():
    ladder = Ladder((20, ProducerError("not acknowledged")), *[(10, UNREACHABLE)] * 4, (5, None))
    ladder.run()
    assert ladder.waited == [0, 1, 2, 4, 8]
    assert ladder.told[0][1] == "starting again at once (1 of 8)"
    assert ladder.told[1] == (UNREACHABLE, "starting again in 1 s (2 of 8)")
    assert not ladder.left


def test_it_gives_up_after_as_many_starts_as_sparks_runner():
    ladder = Ladder(*[(10, UNREACHABLE)] * 9)
    with pytest.raises(JobFailed, match=r"^gave up after 9 failed starts in a row: cannot reach b:9092 ") as caught:
        ladder.run()
    assert caught.value.exit_code == 3
    assert ladder.waited == [0, 1, 2, 4, 8, 16, 30, 30]


def test_an_outage_of_an_hour_is_outlasted_once_a_container_has_run():
    ladder = Ladder(*[(10, UNREACHABLE)] * 90, (1, None), has_run=True)
    ladder.run()
    assert ladder.clock.monotonic() > 3600
    assert ladder.waited == [30.0] * 90
    assert {words for _, words in ladder.told} == {"starting again in 30 s"}


def test_a_start_that_was_sound_for_long_is_repeated_at_once_and_begins_the_pauses_anew():
    ladder = Ladder(*[(lasted, UNREACHABLE) for lasted in (10, 10, 300, 299)], (1, None))
    ladder.run()
    assert ladder.waited == [0, 1, 0, 1]
    assert ladder.told[2][1] == "starting again at once (1 of 8)"


@pytest.mark.parametrize(
    "failure",
    [RetriableError("timed out"), UNREACHABLE, RestoreStalled("no record"), TaskMigrated("the lease has run out")],
    ids=lambda failure: type(failure).__name__,
)
def test_what_may_pass_is_tried_again(failure):
    ladder = Ladder((1, failure), (1, None))
    ladder.run()
    assert [told for told, _ in ladder.told] == [failure]


@pytest.mark.parametrize(
    "failure",
    [
        TaskFailed("process failed"),
        ConfigError([]),
        EnvironmentFailure("not authorised"),
        UnknownStream("kafka", "gone"),
        RestoreError("not a checkpoint"),
        RecordTooLarge("kafka.out", 2, 1),
        JobTakenOver("another run has taken over"),
        SamzapyError("anything"),
        KeyError("a bug"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_what_the_next_start_would_meet_again_is_raised_at_once(failure):
    ladder = Ladder((1, failure))
    with pytest.raises(type(failure)):
        ladder.run()
    assert not ladder.told


def test_without_resubmissions_the_failure_itself_is_raised():
    with pytest.raises(Unreachable):
        Ladder((1, UNREACHABLE), limit=0).run()


def test_a_job_that_is_another_runs_is_not_started_again():
    with pytest.raises(Unreachable):
        Ladder((1, UNREACHABLE), owned=False).run()


def test_a_stop_reaches_the_container_that_runs_and_its_failure_is_raised():
    ladder = Ladder((1, UNREACHABLE))
    container = ladder.script[0]
    container.run = lambda: (ladder.restarts.stop(), Container.run(container))
    with pytest.raises(Unreachable):
        ladder.run()
    assert container.stopped
