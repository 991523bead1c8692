"""Whose part of a recovery is whose."""

from __future__ import annotations

from typing import Any

import pytest

from samzapy.verify.recovery import Recovery, longest, spark_part
from samzapy.verify.scenario import _next_step
from samzapy.verify.traffic import Watcher


class Processes:
    """Plays a run: processes are the times at which they were started."""

    def __init__(self, began: float, spark: list[float], workers: list[float]) -> None:
        self.began = began
        self._spark, self._workers = spark, workers

    def spark(self) -> list[float]:
        return self._spark

    def workers(self) -> list[float]:
        return self._workers

    def start_of(self, process: float) -> float:
        return process


@pytest.mark.parametrize(
    ("run", "part"),
    [
        (Processes(0.0, [1.0], [40.0, 57.5]), 7.5),
        (Processes(51.0, [53.0], [58.0, 59.0]), 6.0),
        (Processes(0.0, [1.0], [40.0, 41.0]), None),
    ],
    ids=["a lost worker: from the fault on", "a new driver: from its JVM on", "no new worker"],
)
def test_sparks_part_ends_with_the_start_of_the_last_new_worker(run: Any, part: float | None):
    assert spark_part(run, 50.0) == part


def test_a_recovery_says_its_parts():
    assert str(Recovery(4.0)) == "4.0 s"
    assert str(Recovery(4.0, 2.5, 1.25)) == "4.0 s; Spark's part 2.5 s, ours 1.5 s; 1.2 s without outputs"
    assert Recovery(4.004).to_json() == {"seconds": 4.0, "spark_s": None, "pause_s": None}


def test_the_longest_recovery_brings_its_own_part_and_the_longest_pause_is_of_any():
    found = longest((Recovery(4.0, 3.9, 0.5), Recovery(6.0, 2.0), Recovery(1.0, None, 0.75)))
    assert found == (6.0, 2.0, 0.75)
    assert longest(()) == (None, None, None)


def test_a_pause_is_of_one_partition_within_the_given_time():
    watcher = Watcher.__new__(Watcher)
    watcher._arrivals = [(1.0, 0), (2.0, 1), (2.5, 0), (2.6, 1), (9.0, 0), (9.1, 1)]
    assert watcher.longest_pause(1.5, 3.0) == pytest.approx(0.6)
    assert watcher.longest_pause(0.0, 10.0) == pytest.approx(6.5)


def test_events_come_all_the_time_during_an_upgrade_and_never_more_than_there_are():
    steps, written = 0, 4_000
    while written < 10_000:
        nearer = _next_step(written, 10_000)
        assert written < nearer <= written + 7
        steps, written = steps + 1, nearer
    assert steps > 1_500
