from __future__ import annotations

from collections import Counter

import orjson

from samzapy.bench.events import Events


def test_the_same_seed_gives_the_same_events():
    assert list(Events(2_000, seed=3)) == list(Events(2_000, seed=3))
    assert list(Events(2_000, seed=3)) != list(Events(2_000, seed=4))


def test_an_event_is_json_of_about_100_bytes_keyed_by_its_user():
    events = list(Events(20_500))
    assert len(events) == 20_500
    for number, (key, value) in enumerate(events):
        event = orjson.loads(value)
        assert event["id"] == number
        assert event["user"].encode() == key
    assert 90 <= sum(len(value) for _, value in events) / len(events) <= 110


def test_keys_follow_zipfs_law():
    ranks = Counter(key for key, _ in Events(50_000, keys=1_000, exponent=1.0))
    first, second, fourth = (ranks[b"u%07d" % rank] for rank in (0, 1, 3))
    assert 1.8 < first / second < 2.2
    assert 3.4 < first / fourth < 4.6
