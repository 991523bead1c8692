"""`stores.*`."""

import pytest

from samzapy.api.stream import SystemStream


@pytest.mark.parametrize(
    ("given", "factory"),
    [
        (
            "org.apache.samza.storage.kv.RocksDbKeyValueStorageEngineFactory",
            "samzapy.storage.rocksdb:RocksDbStorageEngineFactory",
        ),
        (
            "org.apache.samza.storage.kv.inmemory.InMemoryKeyValueStorageEngineFactory",
            "samzapy.storage.kv:InMemoryStorageEngineFactory",
        ),
        ("inmemory", "samzapy.storage.kv:InMemoryStorageEngineFactory"),
        ("my.module:MyEngineFactory", "my.module:MyEngineFactory"),
    ],
)
def test_engines_have_short_java_and_own_names(store, given, factory):
    assert store({"factory": given}).factory == factory


def test_a_changelog_is_named_with_or_without_its_system(store):
    assert store({"changelog": "kafka.log"}).changelog == SystemStream("kafka", "log")
    assert store({"changelog": "log"}, {"job.changelog.system": "kafka"}).changelog == SystemStream("kafka", "log")
    assert store({"changelog": "log"}, {"job.default.system": "kafka"}).changelog == SystemStream("kafka", "log")
    assert store({"changelog": ""}).changelog is None


def test_two_stores_may_not_share_a_changelog(store_problems):
    second = {"stores.t.factory": "rocksdb", "stores.t.key.serde": "string", "stores.t.msg.serde": "string"}
    assert store_problems({"changelog": "kafka.log"}, {**second, "stores.t.changelog": "kafka.log"}) == [
        "stores.t.changelog: store 's' has the same changelog; give each its own"
    ]


def test_changelog_keys_become_topic_keys(store):
    found = store(
        {
            "changelog": "kafka.log",
            "changelog.max.message.bytes": "2000000",
            "changelog.min.compaction.lag.ms": "0",
            "changelog.delete.retention.ms": "1000",
            "changelog.kafka.segment.bytes": "1048576",
        },
        {"stores.default.changelog.replication.factor": "2"},
    )
    assert found.changelog_properties == {
        "segment.bytes": "1048576",
        "max.message.bytes": "2000000",
        "min.compaction.lag.ms": "0",
    }
    assert (found.changelog_delete_retention_ms, found.changelog_replication_factor) == (1_000, 2)


def test_topic_keys_that_would_lose_state_are_refused(store_problems):
    assert store_problems(
        {"changelog.kafka.cleanup.policy": "delete", "changelog.kafka.min.compaction.lag.ms": "1"}
    ) == [
        "stores.s.changelog.kafka.min.compaction.lag.ms: use stores.s.changelog.min.compaction.lag.ms instead",
        "stores.s.changelog.kafka.cleanup.policy: expected compact, or the changelog would lose state, got 'delete'",
    ]


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "x" * 101, "grün"])
def test_a_store_name_that_cannot_be_a_folder_is_refused(problems, name):
    assert problems({f"stores.{name}.factory": "rocksdb"}) == [
        (
            f"stores.{name}.factory: store {name!r}: expected a name of up to 100 of the characters "
            "A-Za-z0-9._-, other than '.' and '..'"
        )
    ]


def test_serdes_are_required_and_must_be_known(store_problems):
    assert store_problems({"key.serde": None, "msg.serde": "jsn"}) == [
        "stores.s.key.serde: required, e.g. string",
        (
            "stores.s.msg.serde: serde 'jsn' unknown; known: string, integer, long, double, bytes, byte, "
            "bytebuffer, uuid, json, msgpack, avro, json-schema, protobuf; did you mean json?"
        ),
    ]


SIDE = {"side.inputs": "kafka.rates, ids#[0-2]", "side.inputs.processor.factory": "my.module:Rates"}


def test_inputs_of_the_task_may_be_read_again_instead_of_a_changelog(store):
    keys = {"restore.inputs": "kafka.page-views", "restore.inputs.processor.factory": "my.module:Views"}
    found = store(keys).source
    assert (found.streams, found.replayed) == ((SystemStream("kafka", "page-views"),), True)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        (
            {"object.cache.size": "100"},
            "object.cache.size: object.cache.size (100) must be >= write.batch.size (500), or 0",
        ),
        ({"backup.path": "s3://b"}, "backup.path: needs stores.s.changelog, which has the changes since the snapshot"),
        ({"side.inputs": "kafka.rates"}, "side.inputs.processor.factory: required, e.g. my.module:MyProcessor"),
        (
            {"side.inputs.processor.factory": "my.module:Rates"},
            "side.inputs.processor.factory: has no effect without stores.s.side.inputs: add that key",
        ),
        (
            {**SIDE, "side.inputs": "kafka.a", "changelog": "kafka.log"},
            "side.inputs: cannot be combined with stores.s.changelog: the store is filled from the streams",
        ),
        (
            {**SIDE, "side.inputs": "kafka.a", "rocksdb.ttl.ms": "5000"},
            "side.inputs: cannot be combined with stores.s.rocksdb.ttl.ms: entries that are read again would get",
        ),
        ({**SIDE, "side.inputs": "kafka.a#[2-0]"}, "side.inputs: partition range 2-0 is empty, got 'kafka.a#[2-0]'"),
        (
            {"restore.inputs": "kafka.other", "restore.inputs.processor.factory": "my.module:Views"},
            "restore.inputs: expected inputs of the task (task.inputs); for other streams use side.inputs",
        ),
        (
            {"restore.inputs": "kafka.page-views#0", "restore.inputs.processor.factory": "my.module:Views"},
            "restore.inputs: expected whole streams, without partitions, got 'kafka.page-views[0]'",
        ),
        (
            {**SIDE, "side.inputs": "kafka.a", "side.inputs.processor.serialized.instance": "rO0AB"},
            "side.inputs.processor.serialized.instance: it is an object of the JVM: name a SideInputsProcessor",
        ),
    ],
)
def test_keys_that_do_not_fit_together_are_refused(store_problems, keys, problem):
    (found,) = store_problems(keys)
    assert found.startswith(f"stores.s.{problem}")


@pytest.mark.parametrize(
    ("keys", "mode"),
    [
        ({}, "reference"),
        ({"task.error.deserialize.policy": "skip"}, "reference"),
        ({"task.error.process.policy": "retry"}, "copy"),
        ({"task.error.process.policy": "skip"}, "copy"),
        ({"task.error.process.policy": "dead-letter", "task.dead.letter.stream": "kafka.dead"}, "copy"),
        ({"task.ignored.exceptions": "KeyError"}, "copy"),
        ({"task.error.process.policy": "retry", "stores.s.object.cache.mode": ""}, "copy"),
        ({"task.error.serialize.policy": "skip"}, "copy"),
        ({"task.error.produce.policy": "skip"}, "copy"),
        ({"task.error.produce.policy": "retry", "task.error.deserialize.policy": "skip"}, "reference"),
        ({"task.error.process.policy": "retry", "stores.s.object.cache.mode": "reference"}, "reference"),
        ({"stores.s.object.cache.mode": "copy"}, "copy"),
    ],
)
def test_stores_hand_out_copies_where_a_failed_message_is_undone_unless_the_file_says_otherwise(store, keys, mode):
    assert store(others=keys).object_cache_mode == mode


def test_a_cache_as_large_as_the_batch_is_accepted(store):
    assert store({"object.cache.size": "500", "write.batch.size": "500"}).object_cache_size == 500
