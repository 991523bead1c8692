"""No secret is ever shown."""

import pickle

import pytest

from samzapy.config.known_keys import ALL_KEYS
from samzapy.config.reading.properties import MASK, Masked, is_secret, literal_secrets, without_password
from samzapy.config.streams.serdes import CLIENT_KEYS

SECRETS = {
    "systems.kafka.consumer.sasl.password": "hunter2",
    "systems.kafka.producer.ssl.key.pem": "hunter2",
    "systems.kafka.consumer.sasl.jaas.config": "hunter2",
    "systems.kafka.consumer.sasl.oauthbearer.config": "hunter2",
    "sensitive.api": "hunter2",
    "my.token": "hunter2",
    "my.credentials": "hunter2",
}


def test_repr_hides_secrets_but_the_values_are_there(load):
    config = load(SECRETS)
    assert "hunter2" not in repr(config)
    assert "hunter2" not in repr(config.resolved)
    assert "hunter2" not in repr(config.raw)
    assert config.systems["kafka"].consumer["sasl.password"] == "hunter2"
    assert config.resolved["sensitive.api"] == "hunter2"


def test_a_value_made_of_a_secret_is_secret_over_any_number_of_steps(load):
    config = load({**SECRETS, "a": "${b}", "b": "x${my.token}", "c": "${env:DB_PASSWORD}"}, {"DB_PASSWORD": "hunter2"})
    assert "hunter2" not in repr(config)
    assert config.resolved["a"] == "xhunter2"


def test_hidden_values_stay_hidden_after_travelling():
    there = pickle.loads(pickle.dumps(Masked({"a": "hunter2", "b": "c"}, frozenset({"a"}))))
    assert there == {"a": "hunter2", "b": "c"}
    assert repr(there) == f"{{'a': '{MASK}', 'b': 'c'}}"


#: Keys of job files with secret values. Every other key of `samzapy keys` is shown.
OURS = {"stores.{store}.backup.options.*"}


def test_of_all_known_keys_just_those_with_secrets_are_masked():
    assert {key.name for key in ALL_KEYS if is_secret(key.name)} == OURS
    secret = {key for key in CLIENT_KEYS if is_secret(f"serializers.registry.s.{key}")}
    assert secret == {"basic.auth.user.info", "bearer.auth.token", "ssl.key.password"}


@pytest.mark.parametrize(
    "key",
    [
        "stores.counts.backup.options.key",
        "job.spark.conf.spark.hadoop.fs.s3a.access.key",
        "job.spark.conf.spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net",
        "job.spark.conf.spark.authenticate.secret",
        "my.connection_string",
        "db.pwd",
        "DB_PASS",
        "sentry.dsn",
        "API_KEY",
        "systems.kafka.producer.ssl.key.password",
        "systems.kafka.consumer.sasl.oauthbearer.client.secret",
        "azure.sas",
    ],
)
def test_a_key_that_opens_something_is_secret(key):
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    ["author", "compass.bearing", "bypass.rate", "keyboard", "stores.s.key.serde", "sort.keys", "passenger.count"],
)
def test_words_that_only_look_alike_are_shown(key):
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://app:hunter2@db/x", f"postgresql://app:{MASK}@db/x"),
        ("postgresql://app:hun@ter@2@db/x", f"postgresql://app:{MASK}@db/x"),
        ("postgresql://app:h/un?t#er2@db/x", f"postgresql://app:{MASK}@db/x"),
        ("mysql://db/x?user=app&password=hunter2&ssl=1", f"mysql://db/x?user=app&password={MASK}&ssl=1"),
        ("host=db user=app password=hunter2 dbname=x", f"host=db user=app password={MASK} dbname=x"),
        ("host=db password='hun ter2' dbname=x", f"host=db password={MASK} dbname=x"),
        ("Server=db;Uid=app;Pwd=hunter2;", f"Server=db;Uid=app;Pwd={MASK};"),
        ("AccountName=a;AccountKey=hunter2==;Suffix=x", f"AccountName=a;AccountKey={MASK};Suffix=x"),
        ("https://host/x?sig=hunter2", f"https://host/x?sig={MASK}"),
        ("a=b", "a=b"),
        ("kafka://broker:9092", "kafka://broker:9092"),
        ("plain", "plain"),
    ],
)
def test_passwords_within_values_are_masked_and_the_rest_is_shown(text, shown):
    assert without_password(text) == shown


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("systems.kafka.consumer.sasl.password", "hunter2"),
        ("systems.kafka.consumer.sasl.jaas.config", 'x username="a" password="hunter2";'),
        ("systems.kafka.consumer.ssl.key.pem", "-----BEGIN"),
        ("systems.shop.database.url", "postgresql://user:hunter2@host/shop"),
        ("systems.shop.database.url", "postgresql://user:hun@ter2@host/shop?x=${env:X}"),
        ("stores.s.backup.options.key", "hunter2"),
        ("stores.s.backup.options.secret", "hunter2"),
        ("sensitive.api", "hunter2"),
        ("my.token", "pa$${ss}"),
    ],
)
def test_a_secret_that_is_written_is_a_literal_one(key, value):
    assert literal_secrets({key: value}) == [key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("systems.kafka.consumer.sasl.password", "${env:PASSWORD}"),
        ("systems.kafka.consumer.sasl.jaas.config", 'x username="a" password="${env:PASSWORD}";'),
        ("systems.shop.database.url", "postgresql://user:${env:PASSWORD}@host/shop"),
        ("systems.shop.database.url", "postgresql://host/shop"),
        ("systems.kafka.consumer.ssl.key.location", "/etc/key.pem"),
        ("systems.kafka.consumer.sasl.oauthbearer.token.endpoint.url", "https://host/token"),
        ("systems.kafka.consumer.sasl.oauthbearer.method", "oidc"),
        ("systems.kafka.consumer.enable.sasl.oauthbearer.unsecure.jwt", "false"),
        ("stores.s.backup.options.anon", "true"),
        ("stores.s.backup.options.endpoint_url", "https://host"),
        ("my.token", ""),
        ("task.commit.ms", "1000"),
    ],
)
def test_a_reference_a_place_and_a_flag_are_no_literal_secrets(key, value):
    assert literal_secrets({key: value}) == []


def test_a_secret_behind_an_innocent_name_is_a_literal_one_unless_a_variable_has_it():
    keys = {"systems.k.consumer.sasl.password": "${shared}", "shared": "${deeper}", "deeper": "hunter2"}
    assert literal_secrets(keys) == ["systems.k.consumer.sasl.password"]
    assert literal_secrets({**keys, "deeper": "${env:PASSWORD}"}) == []
    assert literal_secrets({**keys, "deeper": "${shared}"}) == []
