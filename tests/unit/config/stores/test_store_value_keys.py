"""Keys about values and changelogs of expiring stores."""

from samzapy.storage.changelog.topic import changelog_spec


def test_less_than_a_second_counts_as_a_second(load):
    config = load(
        {
            "stores.s.factory": "rocksdb",
            "stores.s.key.serde": "string",
            "stores.s.msg.serde": "json",
            "stores.s.rocksdb.ttl.ms": "10",
        }
    )
    assert config.stores["s"].ttl_ms == 1_000
    assert config.warnings == ("stores.s.rocksdb.ttl.ms: 10 counts as 1000, the shortest time to live",)


def test_the_changelog_of_an_expiring_store_is_deleted_by_age(store):
    spec = changelog_spec(store({"changelog": "kafka.log", "rocksdb.ttl.ms": "60000"}), 4)
    assert (spec.config["cleanup.policy"], spec.config["retention.ms"]) == ("delete", "60000")
    both = store(
        {"changelog": "kafka.log", "rocksdb.ttl.ms": "60000", "changelog.kafka.cleanup.policy": "compact,delete"}
    )
    assert changelog_spec(both, 4).config["cleanup.policy"] == "compact,delete"


def test_a_changelog_that_forgets_before_its_store_is_refused(store_problems):
    assert store_problems(
        {"changelog": "kafka.log", "rocksdb.ttl.ms": "60000", "changelog.kafka.retention.ms": "59999"}
    ) == [
        (
            "stores.s.changelog.kafka.retention.ms: must be >= rocksdb.ttl.ms (60000), or the changelog would "
            "lose state, got '59999'"
        )
    ]


def test_a_limit_without_a_rule_warns(load):
    (warning,) = load(
        {
            "stores.s.factory": "rocksdb",
            "stores.s.key.serde": "string",
            "stores.s.msg.serde": "json",
            "stores.s.changelog.max.message.size.bytes": "10",
        }
    ).warnings
    assert "has no effect without" in warning


def test_a_changelog_over_a_store_that_forgets_warns(load):
    store = {"stores.s.factory": "rocksdb", "stores.s.key.serde": "string", "stores.s.msg.serde": "json"}
    fifo = {**store, "stores.s.rocksdb.compaction.style": "fifo"}
    assert load(fifo).warnings == ()
    (warning,) = load({**fifo, "stores.s.changelog": "kafka.log"}).warnings
    assert "fifo drops the oldest entries" in warning
