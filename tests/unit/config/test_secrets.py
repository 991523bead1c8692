"""No secret is ever shown."""

import pickle

import pytest

from samzapy.config.reading.secrets import MASK, Masked, is_secret

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


def test_problems_hide_secrets(problems):
    assert problems({"task.commit.ms": "${env:MY_PASSWORD}"}, {"MY_PASSWORD": "hunter2"}) == [
        f"task.commit.ms: expected an integer, got '{MASK}'"
    ]


def test_a_value_made_of_a_secret_is_secret_over_any_number_of_steps(load):
    config = load({**SECRETS, "a": "${b}", "b": "x${my.token}", "c": "${env:DB_PASSWORD}"}, {"DB_PASSWORD": "hunter2"})
    assert "hunter2" not in repr(config)
    assert config.resolved["a"] == "xhunter2"


@pytest.mark.parametrize("key", ["SSL.KEYSTORE.PASSWORD", "a.secret", "ssl.key.pem", "sensitive.x"])
def test_a_key_is_secret_by_its_name_in_any_case(key):
    assert is_secret(key)


def test_an_ordinary_key_is_not_secret():
    assert not is_secret("task.commit.ms", "500")


def test_hidden_values_stay_hidden_after_travelling():
    there = pickle.loads(pickle.dumps(Masked({"a": "hunter2", "b": "c"}, frozenset({"a"}))))
    assert there == {"a": "hunter2", "b": "c"}
    assert repr(there) == f"{{'a': '{MASK}', 'b': 'c'}}"
