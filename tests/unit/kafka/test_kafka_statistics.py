"""librdkafka's statistics as a handful of numbers."""

import json

from samzapy.system.kafka.client import ClientStatistics
from samzapy.testing import ManualClock


def text(name="c#consumer-1", tx=5, **more):
    broker = {
        "nodeid": 1,
        "state": "UP",
        "txerrs": 2,
        "rxerrs": 1,
        "rtt": {"avg": 9, "p99": 900},
        "throttle": {"avg": 3},
    }
    seed = {"nodeid": -1, "state": "UP", "rtt": {"p99": 5_000}}
    topics = {"in": {"partitions": {"0": {"fetchq_cnt": 4, "fetchq_size": 40}, "-1": {"fetchq_cnt": 0}}}}
    found = {
        "name": name,
        "type": "consumer",
        "tx": tx,
        "brokers": {"b:1/1": broker, "b:1/bootstrap": seed},
        "topics": topics,
    }
    return json.dumps(found | more)


def test_the_numbers_of_brokers_and_partitions_are_added_up():
    statistics = ClientStatistics()
    statistics.note(text())
    found = statistics.metrics()
    assert (found["requests"], found["request-errors"], found["brokers-up"]) == (5, 3, 1)
    assert (found["fetched-messages"], found["fetched-bytes"]) == (4, 40)
    assert (found["round-trip-p99-us"], found["throttle-ms"]) == (900, 3)


def test_counters_go_on_when_another_handle_takes_the_place_of_one():
    statistics = ClientStatistics()
    for each in (
        text(),
        text(tx=7),
        text("c#consumer-2", tx=1),
        text("c#consumer-2", tx=2),
        text("c#consumer-3", tx=1),
    ):
        statistics.note(each)
        statistics.metrics()
    assert statistics.metrics()["requests"] == 7 + 2 + 1


def test_there_are_no_numbers_before_the_first_statistics():
    assert ClientStatistics().metrics() == {}


def test_stale_statistics_have_no_gauges_and_keep_their_counters():
    clock = ManualClock()
    statistics = ClientStatistics(clock, 10.0)
    statistics.note(text())
    clock.advance(30)
    assert statistics.metrics()["brokers-up"] == 1
    clock.advance(1)
    found = statistics.metrics()
    assert found["requests"] == 5
    assert not {"brokers-up", "fetched-messages", "queued-bytes", "round-trip-p99-us"} & found.keys()
    statistics.note(text(tx=6))
    assert statistics.metrics()["brokers-up"] == 1
