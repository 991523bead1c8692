"""`samzapy kafka` with the real broker."""

import re
import socket

import pytest
from click.testing import CliRunner

from samzapy.cli.main import cli

pytestmark = [pytest.mark.slow, pytest.mark.kafka]


def samzapy(*arguments):
    done = CliRunner().invoke(cli, ["kafka", *arguments])
    return done.exit_code, done.stdout


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_the_broker_starts_once_answers_and_stops(tmp_path, port):
    folder = str(tmp_path / "kafka")
    assert samzapy("status", "--folder", folder) == (3, f"Broker in {folder}\n  none\n\n")
    try:
        for _ in range(2):
            code, output = samzapy("start", "--folder", folder, "--port", str(port))
            assert code == 0
            assert output.startswith(f"Kafka answers at 127.0.0.1:{port}")
        code, output = samzapy("status", "--folder", folder, "--json")
        assert code == 0
        assert re.search(rf"\"127\.0\.0\.1:{port}\", \"pid\": \d+, \"version\": \"[0-9.]+\"", output)
    finally:
        assert samzapy("stop", "--folder", folder) == (0, "stopped\n")
    assert samzapy("stop", "--folder", folder) == (0, f"no broker runs in {folder}\n")
