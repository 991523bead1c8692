import pytest

from samzapy.api.system import SystemSettings
from samzapy.errors import ConfigError
from samzapy.system.kafka import KafkaSystemFactory
from samzapy.system.kafka.settings import admin_properties, consumer_properties, producer_properties

SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


def settings(consumer=SERVERS, producer=None, properties=None):
    return SystemSettings("kafka", "kafka", consumer=consumer, producer=producer or {}, properties=properties or {})


def problems(found):
    with pytest.raises(ConfigError) as raised:
        KafkaSystemFactory().check(found)
    return {problem.key: problem for problem in raised.value.problems}


def test_ordinary_settings_are_accepted_and_replace_the_defaults():
    given = settings({**SERVERS, "fetch.min.bytes": "10"}, {"compression.type": "lz4", "linger.ms": "3"})
    KafkaSystemFactory().check(given)
    cases = ((settings(), None), (settings(), "in a transaction"), (given, "in a transaction"))
    waits = [producer_properties(item, "c", transactional_id, 1)["linger.ms"] for item, transactional_id in cases]
    assert waits == ["1", "20", "3"]


def test_either_side_names_the_cluster_for_both():
    given = settings({}, SERVERS)
    assert consumer_properties(given, "c")["bootstrap.servers"] == "127.0.0.1:1"
    assert admin_properties(given, "c")["bootstrap.servers"] == "127.0.0.1:1"
    assert producer_properties(settings(), "c", None, 1)["bootstrap.servers"] == "127.0.0.1:1"


def test_a_system_without_an_address_is_refused():
    assert "systems.kafka.consumer.bootstrap.servers" in problems(settings({}))


GUARANTEES = [
    "acks",
    "auto.offset.reset",
    "client.id",
    "enable.auto.commit",
    "enable.idempotence",
    "error_cb",
    "group.id",
    "isolation.level",
    "log.connection.close",
    "log_level",
    "logger",
    "partitioner",
    "plugin.library.paths",
    "socket.max.fails",
    "transactional.id",
]


@pytest.mark.parametrize("key", GUARANTEES)
def test_a_property_that_carries_a_guarantee_is_refused_on_both_sides(key):
    found = problems(settings({**SERVERS, key: "x"}, {key: "x"}))
    assert set(found) == {f"systems.kafka.consumer.{key}", f"systems.kafka.producer.{key}"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max.in.flight", "6"),
        ("max.in.flight.requests.per.connection", "6"),
        ("retries", "0"),
        ("message.send.max.retries", "0"),
        ("queuing.strategy", "lifo"),
    ],
)
def test_what_would_reorder_or_not_repeat_a_send_is_refused(key, value):
    (found,) = problems(settings(SERVERS, {key: value})).items()
    assert found[0] == f"systems.kafka.producer.{key}"
    assert "when `enable.idempotence` is true" in str(found[1])


def test_a_refused_property_is_refused_by_the_factory_too():
    with pytest.raises(ConfigError, match=r"systems\.kafka\.consumer\.isolation\.level"):
        KafkaSystemFactory().consumer(settings({**SERVERS, "isolation.level": "read_uncommitted"}), "c")
    with pytest.raises(ConfigError, match=r"systems\.kafka\.producer\.acks"):
        KafkaSystemFactory().producer(settings(SERVERS, {"acks": "0"}), "c")


def test_unknown_properties_are_all_named_with_their_full_keys():
    found = problems(settings({**SERVERS, "fetch.foo": "1", "fetch.min.bytes": "few"}, {"linger.bar": "2"}))
    assert set(found) == {
        "systems.kafka.consumer.fetch.foo",
        "systems.kafka.consumer.fetch.min.bytes",
        "systems.kafka.producer.linger.bar",
    }
    assert 'No such configuration property: "fetch.foo"' in str(found["systems.kafka.consumer.fetch.foo"])


def test_a_secret_is_masked_in_a_problem():
    found = problems(settings({**SERVERS, "ssl.key.passwordx": "hunter2"}))
    assert "hunter2" not in str(found["systems.kafka.consumer.ssl.key.passwordx"])


def test_keys_of_samza_files_without_a_meaning_here_are_ignored():
    KafkaSystemFactory().check(settings({**SERVERS, "zookeeper.connect": "localhost:2181"}))


def test_samzas_fetch_thresholds_bound_the_read_ahead():
    given = settings(properties={"samza.fetch.threshold": "500"})
    assert consumer_properties(given, "c")["queued.min.messages"] == "500"
    given = settings(properties={"samza.fetch.threshold": "500", "samza.fetch.threshold.bytes": "1048576"})
    found = consumer_properties(given, "c")
    # The limit in bytes is the only one: 10 M is the most that librdkafka takes.
    assert (found["queued.max.messages.kbytes"], found["queued.min.messages"]) == ("1024", "10000000")


def test_a_fetch_threshold_that_is_no_number_is_refused():
    found = problems(settings(properties={"samza.fetch.threshold": "many"}))
    assert set(found) == {"systems.kafka.samza.fetch.threshold"}


def test_what_carries_the_guarantees_is_set():
    consumer = consumer_properties(settings(), "c")
    assert consumer["isolation.level"] == "read_committed"
    assert consumer["auto.offset.reset"] == "error"
    assert consumer["enable.auto.commit"] == "false"
    producer = producer_properties(settings(), "c", "job-task", 1234)
    assert (producer["acks"], producer["enable.idempotence"]) == ("all", "true")
    assert (producer["transactional.id"], producer["transaction.timeout.ms"]) == ("job-task", "1234")


def test_an_admin_connects_as_the_consumer_does():
    given = settings(
        {**SERVERS, "security.protocol": "ssl", "fetch.min.bytes": "9"}, {"security.protocol": "plaintext"}
    )
    found = admin_properties(given, "c")
    assert found["security.protocol"] == "ssl"
    assert "fetch.min.bytes" not in found


TLS = {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
FILES = ["ssl.ca.location", "ssl.certificate.location", "ssl.crl.location", "ssl.key.location", "ssl.keystore.location"]


@pytest.mark.parametrize("key", FILES)
def test_a_file_that_does_not_exist_is_named_with_its_key(key):
    found = problems(settings({**SERVERS, **TLS, key: "/no/such.pem"}))
    (problem,) = found.values()
    named = f"systems.kafka.consumer.{key}"
    assert str(problem) == f"{named}: cannot read the file /no/such.pem (No such file or directory)"


def test_a_folder_of_authorities_and_those_of_the_machine_are_accepted(tmp_path):
    for place in (str(tmp_path), "probe"):
        KafkaSystemFactory().check(settings({**SERVERS, **TLS, "ssl.ca.location": place}))


def test_a_property_that_lacks_another_one_alone_is_not_blamed(tmp_path):
    broken = tmp_path / "ca.pem"
    broken.write_text("no certificate")
    found = problems(settings({**SERVERS, **TLS, "ssl.ca.location": str(broken)}))
    assert list(found) == ["systems.kafka.consumer"]
    assert "ssl.ca.location failed" in str(found["systems.kafka.consumer"])
