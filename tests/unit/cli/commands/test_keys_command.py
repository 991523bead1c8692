"""`samzapy keys`."""

from samzapy.config.known_keys import ALL_KEYS
from samzapy.coordinator.server import Tokens


def test_every_key_is_listed_with_default_and_meaning(samzapy):
    code, output, _ = samzapy("keys")
    rows = output.splitlines()[2:-1]
    assert code == 0
    assert len(rows) == len(ALL_KEYS)
    (commit,) = (row for row in rows if row.startswith("  task.commit.ms "))
    assert "60000" in commit
    assert commit.endswith("Milliseconds between commits. <= 0: only on request and at the end.")


def test_keys_of_samza_without_a_meaning_are_listed_with_the_reason(samzapy):
    code, output, _ = samzapy("keys", "--unsupported")
    assert code == 0
    assert "yarn.*" in output
    assert "\\" not in output
    rows = samzapy("keys", "--unsupported", "STORES.", "side.inputs")[1].splitlines()[2:-1]
    assert [row.split()[:2] for row in rows] == [["stores.*.side.inputs.processor.serialized.instance", "refused"]]


def test_the_token_for_prometheus_is_the_one_that_reads(samzapy, monkeypatch):
    monkeypatch.setenv("SAMZAPY_TOKEN", "acts")
    assert samzapy("metrics", "token") == (0, f"{Tokens('acts').read}\n", "")
