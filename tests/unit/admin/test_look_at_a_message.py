"""The page's look at the messages of an input, and at a store's entries and their history."""

import uuid

import pytest
from rigs.store_rig import TickingClock

from samzapy.admin import store_queries
from samzapy.admin.store_queries import JobInspector
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.errors import ConfigError, RetriableError
from samzapy.system.clients import system_factory


@pytest.fixture
def config():
    return load_job(
        {
            "job.name": "j",
            "task.class": "a:B",
            "task.inputs": "m.in",
            "systems.m.samza.factory": "memory",
            "systems.m.cluster": uuid.uuid4().hex,
        }
    )


@pytest.fixture
def transaction(config):
    settings = config.systems["m"]
    factory = system_factory(settings)
    factory.admin(settings, "test").create(StreamSpec("in", 1))
    producer = factory.producer(settings, "test", "id")
    producer.init_transactions()
    producer.begin()
    producer.send([OutgoingRecord("in", b"k", b"v", 0)])
    producer.flush()
    yield producer
    producer.close()


def test_a_message_behind_an_open_transaction_is_given_up_and_found_after_its_end(config, transaction):
    inspector, place = JobInspector(config, TickingClock(10.0)), ("m.in", "0", "0")
    with pytest.raises(RetriableError, match=r"m\.in: no record for 10 s: a transaction before it is still open"):
        inspector.messages(*place)
    transaction.commit()
    assert [(each.place[:9], each.value) for each in inspector.messages(*place)] == [("m.in[0]@0", '"76"')]


@pytest.fixture
def inspector(tmp_path):
    """Of a job with an input of text, and a store with a changelog: three messages, and four changes of two keys."""
    system = {"systems.m.samza.factory": "memory", "systems.m.cluster": uuid.uuid4().hex}
    texts = {"samza.key.serde": "string", "samza.msg.serde": "string"}
    config = load_job(
        {
            "job.name": "j",
            "task.class": "samzapy.examples.page_views:PageViewCountTask",
            "task.inputs": "m.in",
            **system,
            **{f"systems.m.{name}": serde for name, serde in texts.items()},
            "stores.counts.factory": "memory",
            "stores.counts.key.serde": "string",
            "stores.counts.msg.serde": "json",
            "stores.counts.changelog": "m.log",
        }
    )
    settings = config.systems["m"]
    factory = system_factory(settings)
    admin = factory.admin(settings, "test")
    admin.create(StreamSpec("in", 1))
    admin.create(StreamSpec("log", 1, {"cleanup.policy": "compact"}))
    producer = factory.producer(settings, "test")
    messages = ((b"ann", b"a", 1_000), (b"bob", b"b", 2_000), (b"ann", b"c", 3_000))
    producer.send([OutgoingRecord("in", key, value, 0, timestamp=time) for key, value, time in messages])
    changes = ((b"ann", b"1"), (b"bob", b"1"), (b"ann", b"2"), (b"ann", None))
    producer.send([OutgoingRecord("log", key, value, 0, timestamp=5_000 + n) for n, (key, value) in enumerate(changes)])
    producer.flush()
    producer.close()
    return JobInspector(config)


@pytest.mark.parametrize(
    ("start", "key", "values"),
    [
        ("1", None, ["b", "c"]),
        ("oldest", None, ["a", "b", "c"]),
        ("newest", None, ["c"]),
        ("oldest", "ann", ["a", "c"]),
        ("1970-01-01T00:00:02Z", None, ["b", "c"]),
        ("1970-01-01T02:00:03+02:00", None, ["c"]),
        ("1970-01-02", None, []),
    ],
)
def test_messages_are_found_from_an_offset_or_a_time_and_by_key(inspector, start, key, values):
    found = inspector.messages("m.in", "0", start, key)
    assert [each.value for each in found] == values
    assert all(each.place.startswith("m.in[0]@") and each.place.endswith("Z") for each in found)


def test_a_scan_reads_and_returns_a_bounded_number_of_messages(inspector, monkeypatch):
    monkeypatch.setattr(store_queries, "MOST_RECORDS", 1)
    assert [each.value for each in inspector.messages("m.in", "0", "oldest")] == ["a"]
    monkeypatch.setattr(store_queries, "MOST_READ", 1)
    assert inspector.messages("m.in", "0", "oldest", "bob") == []


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [(1_700_000_000_000_000, "1700000000000000 ms"), (-5, "1969-12-31T23:59:59.995Z"), (-1, "no time")],
)
def test_a_message_with_any_time_stamp_is_shown(config, timestamp, shown):
    factory = system_factory(config.systems["m"])
    factory.admin(config.systems["m"], "test").create(StreamSpec("in", 1))
    producer = factory.producer(config.systems["m"], "test")
    producer.send([OutgoingRecord("in", b"k", b"v", 0, timestamp=timestamp)])
    producer.flush()
    producer.close()
    assert [each.place for each in JobInspector(config).messages("m.in", "0", "oldest")] == [f"m.in[0]@0, {shown}"]


@pytest.mark.parametrize("start", ["5", "never", "2026-99-99"])
def test_a_start_that_does_not_exist_is_refused(inspector, start):
    with pytest.raises(ConfigError, match="from"):
        inspector.messages("m.in", "0", start)


def test_the_history_of_a_key_has_its_changes_newest_first(inspector):
    found = inspector.entries("counts", "ann", "history")
    assert [(each.place.rpartition(" ")[2], each.value) for each in found] == [
        ("deleted", ""),
        ("put", "2"),
        ("put", "1"),
    ]
    assert found[1].place == "m.log[0]@2, 1970-01-01T00:00:05.002Z, put"


def test_entries_are_found_by_a_prefix(inspector):
    assert [(each.key, each.value) for each in inspector.entries("counts", "b", "prefix")] == [("bob", "1")]
    with pytest.raises(ConfigError, match="how: expected key, prefix, history, got 'all'"):
        inspector.entries("counts", "b", "all")


def test_a_job_of_a_task_has_a_picture_of_its_inputs_and_stores(inspector):
    assert [(each["name"], each["kind"], each["inputs"]) for each in inspector.steps] == [
        ("m.in", "stream", ()),
        ("PageViewCountTask", "task", ("m.in",)),
        ("counts", "output", ("PageViewCountTask",)),
    ]
