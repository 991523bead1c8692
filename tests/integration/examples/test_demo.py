"""`samzapy demo`, as a user types it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAMZAPY = Path(sys.executable).with_name("samzapy")


def demo(folder: Path, runner: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SAMZAPY), "demo", "--runner", runner], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_prints_delays_and_throughput_and_can_be_repeated(tmp_path):
    outputs = []
    for runner in ("spark", "local"):
        done = demo(tmp_path, runner)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert max(map(len, lines[:-1])) <= 100
        outputs.append(lines[:-1])
        assert "340,098 messages" in lines[-1]
        assert "msg/s" in lines[-1]
    assert outputs[0] == outputs[1]
    assert any(line.split()[:6] == ["ExpressJet", "Airlines", "19", "4,507", "365", "36.0"] for line in outputs[0])
    assert "336,776 flights, 8,255 cancelled" in outputs[0][-1]
    assert (tmp_path / ".samzapy" / "demo" / "local.db").is_file()
    assert any((tmp_path / ".samzapy" / "demo" / "state").rglob("*.sst"))
