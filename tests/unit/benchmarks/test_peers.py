from __future__ import annotations

import sys

import pytest

from benchmarks.peers.launchers import Launcher, Settings
from benchmarks.peers.running import measure
from samzapy.bench.measuring import MeasurementFailed

MARKING = """
import sys, time
marks = sys.argv[1]
def mark(event):
    with open(marks, "a") as file:
        file.write(f"{event} {time.monotonic()}\\n")
def burn(seconds):
    start = time.process_time()
    while time.process_time() - start < seconds: pass
burn(0.3); mark("first"); burn(0.6); mark("last"); burn(0.3); mark("committed")
"""


class Script(Launcher):
    def __init__(self, text):
        self.text = text

    def install(self):
        pass

    def command(self, settings):
        return [sys.executable, "-c", self.text, str(settings.marks)]


def settings(folder):
    return Settings(
        bootstrap="127.0.0.1:9092",
        input="events",
        output="out",
        workload="keyed-count",
        id="peer-1",
        folder=folder / "peer-1",
        marks=folder / "peer-1.marks",
        events=1_000_000,
        commit_ms=10_000,
    )


def test_a_peer_is_measured_between_its_first_and_its_last_message(tmp_path):
    found = measure(Script(MARKING), settings(tmp_path))
    assert found.messages == 1_000_000
    assert 0.3 <= found.cpu_s <= 0.9, "neither the start nor what follows the last message"
    assert found.more["committed_cpu_s"] > found.cpu_s
    assert found.more["committed_s"] > found.seconds
    assert found.more["start_s"] > 0


def test_a_peer_that_ends_before_its_last_message_is_no_measurement(tmp_path):
    with pytest.raises(MeasurementFailed, match=r"exit code 3: .*no partitions"):
        measure(Script("import sys; print('no partitions'); sys.exit(3)"), settings(tmp_path))
