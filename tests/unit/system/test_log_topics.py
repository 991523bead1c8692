import pytest

from samzapy.api.system import StreamSpec
from samzapy.errors import ConfigError
from samzapy.system.local.streams import checked


def test_a_stream_without_configuration_has_kafkas_defaults_and_keeps_everything():
    found = checked(StreamSpec("s", 2))
    assert (found.max_message_bytes, found.delete_retention_ms) == (1_000_012, 86_400_000)
    assert (found.compacted, found.expires) == (False, False)


def test_both_policies_can_be_combined():
    found = checked(StreamSpec("s", 1, {"cleanup.policy": "compact,delete", "retention.ms": "5"}))
    assert (found.compacted, found.expires, found.retention_ms) == (True, True, 5)


def test_keys_of_other_systems_are_kept_and_ignored():
    assert checked(StreamSpec("s", 1, {"min.insync.replicas": "2"})).config["min.insync.replicas"] == "2"


def test_everything_wrong_is_reported_together():
    config = {
        "cleanup.policy": "keep",
        "max.message.bytes": "1MB",
        "min.cleanable.dirty.ratio": "2",
        "retention.ms": "-2",
    }
    with pytest.raises(ConfigError) as raised:
        checked(StreamSpec("s/x", 0, config))
    assert len(raised.value.problems) == 6


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "naïve", "a\n"])
def test_a_name_that_kafka_would_refuse_is_refused(name):
    with pytest.raises(ConfigError):
        checked(StreamSpec(name, 1))


def test_a_log_is_worth_cleaning_when_it_has_grown_a_lot():
    compacted = checked(StreamSpec("s", 1, {"cleanup.policy": "compact"}))
    assert not compacted.needs_cleaning(dirty=10, total=10)
    assert not compacted.needs_cleaning(dirty=100_000, total=1_000_000)
    assert compacted.needs_cleaning(dirty=600_000, total=1_000_000)
    assert not checked(StreamSpec("s", 1)).needs_cleaning(dirty=600_000, total=1_000_000)
