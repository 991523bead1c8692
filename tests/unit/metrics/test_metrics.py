"""Counting, and telling it."""

import json
import logging
import math
import threading

import numpy as np
import pytest

from samzapy.api.stream import SystemStream
from samzapy.config.supervision import ReporterConfig
from samzapy.errors import ProducerError, SamzapyError
from samzapy.metrics import Registry, Reporter, SnapshotHeader, reporters
from samzapy.metrics.registry import recent
from samzapy.metrics.reporters import snapshots, without
from samzapy.testing import ManualClock

HEADER = SnapshotHeader("views", "1", "0", "here")


@pytest.fixture
def clock():
    return ManualClock(1_000_000)


def test_asking_twice_gives_the_same_metric():
    registry = Registry()
    registry.counter("g", "n").inc(2)
    registry.counter("g", "n").count += 1
    registry.gauge("g", "level").set(0.5)
    registry.timer("h", "commit").update(2.0)
    registry.timer("h", "commit").update(1.0)
    assert registry.snapshot() == {
        "g": {"n": 3, "level": 0.5},
        "h": {"commit.count": 2, "commit.total-s": 3.0, "commit.max-s": 2.0},
    }


def test_a_histogram_counts_the_values_up_to_each_of_its_bounds():
    registry = Registry()
    registry.histogram("g", "n", (1, 10)).update(1)
    registry.histogram("g", "n", (1, 10)).update(5, times=2)
    registry.histogram("g", "n", (1, 10)).update(11)
    assert registry.snapshot()["g"] == {"n.le.1.0": 1, "n.le.10.0": 3, "n.le.+Inf": 4, "n.le.sum": 22, "n.le.count": 4}


def test_a_name_keeps_its_kind():
    registry = Registry()
    registry.counter("g", "n")
    with pytest.raises(SamzapyError, match=r"metric g\.n is a counter, not a gauge"):
        registry.gauge("g", "n")


def test_a_snapshot_may_be_taken_while_metrics_are_added():
    registry = Registry()

    def add():
        for number in range(20_000):
            registry.counter("g", str(number))

    thread = threading.Thread(target=add)
    thread.start()
    while thread.is_alive():
        registry.snapshot()
    thread.join()
    assert len(registry.snapshot()["g"]) == 20_000


def test_a_snapshot_has_samzas_shape(clock):
    published = []
    registry = Registry()
    registry.counter("commit", "commits").inc()
    reporter = Reporter("0", snapshots(registry, HEADER, published.append, clock, without("")), clock, 10)
    clock.advance(12.5)
    reporter.report()
    (snapshot,) = map(json.loads, published)
    assert snapshot["metrics"] == {"commit": {"commits": 1}}
    header = snapshot["header"]
    assert (header["job-name"], header["job-id"], header["host"]) == ("views", "1", "here")
    assert header["container-name"] == header["source"] == "samza-container-0"
    assert (header["reset-time"], header["time"]) == (1_000_000, 1_012_500)
    assert header["version"] == header["samza-version"]


def test_a_reporter_is_due_at_each_beat_and_does_not_catch_up(clock):
    published = []
    reporter = Reporter("0", snapshots(Registry(), HEADER, published.append, clock, without("")), clock, 10)
    told = [clock.advance_to(at) or reporter.tick() for at in (0, 9.9, 10.4, 19.9, 20.1, 45, 49.9, 50)]
    assert told == [False, False, True, False, True, True, False, True]
    assert len(published) == 4


def test_metrics_on_the_blacklist_are_left_out(clock):
    published = []
    registry = Registry()
    registry.counter("store", "gets")
    registry.counter("commit", "commits")
    config = ReporterConfig("a", "snapshot", SystemStream("kafka", "metrics"), 5, r"store\..*")
    reporters([config], registry, HEADER, lambda stream: published.append, clock)[0].report()
    assert json.loads(published[0])["metrics"] == {"store": {}, "commit": {"commits": 0}}


@pytest.mark.parametrize(("cause", "told"), [(ProducerError("no broker"), ": no broker"), (ZeroDivisionError(), "")])
def test_a_failure_to_publish_is_logged_and_does_not_reach_the_reporters_thread(clock, caplog, cause, told):
    def refuse(_):
        raise cause

    Reporter("0", snapshots(Registry(), HEADER, refuse, clock, without("")), clock).report()
    assert caplog.messages == [f"The metrics of container 0 were not published{told}"]


def test_reporters_are_made_from_the_job_file(clock, caplog):
    sent = {}

    def publisher_of(stream):
        return lambda snapshot: sent.setdefault(stream, []).append(snapshot)

    stream = SystemStream("kafka", "metrics")
    configs = (ReporterConfig("a", "snapshot", stream, 5), ReporterConfig("b", "log", None, 7))
    made = reporters(configs, Registry(), HEADER, publisher_of, clock)
    clock.advance(6)
    with caplog.at_level(logging.INFO):
        assert [reporter.tick() for reporter in made] == [True, False]
        made[1].report()
    assert len(sent[stream]) == 1
    assert json.loads(caplog.messages[0])["header"]["job-name"] == "views"


def test_the_stores_of_a_task_are_told_under_samzas_names_too(clock):
    published = []
    registry = Registry()
    registry.counter("commit", "commits").inc()
    for task in ("Partition 0", "Partition 1"):
        for name, value in (("counts.gets", 3), ("counts.hits", 2), ("other.entries", 7), ("more.others.size", 1)):
            registry.gauge(task, f"store.{name}").set(value)
    config = ReporterConfig("a", "snapshot", SystemStream("k", "m"), 5, r".*StoreMetrics\.more.others-size.*")
    reporters([config], registry, HEADER, lambda stream: published.append, clock)[0].report()
    whole, *tasks = map(json.loads, published)
    assert whole["metrics"]["Partition 0"]["store.counts.gets"] == 3
    assert [each["header"]["source"] for each in tasks] == ["TaskName-Partition 0", "TaskName-Partition 1"]
    kv = "org.apache.samza.storage.kv."
    assert tasks[0]["metrics"] == {
        f"{kv}KeyValueStoreMetrics": {"counts-gets": 3, "counts-hits": 2, "other-entries": 7},
        f"{kv}CachedStoreMetrics": {"counts-gets": 3, "counts-cache-hits": 2},
        f"{kv}KeyValueStorageEngineMetrics": {"counts-gets": 3},
    }


class Odd:
    def __float__(self):
        raise ZeroDivisionError


def test_a_gauge_is_a_plain_number_whatever_it_was_set_to():
    registry = Registry()
    for name, value in {"numpy": np.float64(1.5), "none": None, "text": "x", "odd": Odd(), "large": 10**30}.items():
        registry.gauge("g", name).set(value)
    registry.counter("g", "count").inc(np.int64(2))
    found = registry.snapshot()["g"]
    assert (found["numpy"], found["large"], found["count"]) == (1.5, 1e30, 2)
    assert {type(value) for value in found.values()} <= {float, int}
    assert all(math.isnan(found[name]) for name in ("none", "text", "odd"))


def test_the_numbers_of_the_last_seconds_forget_those_before(clock):
    registry = Registry()
    times = registry.histogram("process", "seconds", (0.001, 0.1))
    look, changelog = recent(registry, times, clock), registry.timer("commit", "step.changelog")
    assert look() == {}
    for took, count in ((0.0005, 98), (0.05, 2)):
        times.update(took, count)
        changelog.update(20 * took)
    for after_s, expected in (
        (9.9, {}),
        (0.1, {"p50": 0.001, "p99": 0.1, "changelog": 0.505, "busy": 0.1159}),
        (10.0, {"busy": 0.0}),
    ):
        clock.advance(after_s)
        assert look() == pytest.approx(expected)
