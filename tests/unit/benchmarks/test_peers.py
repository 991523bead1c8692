from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from benchmarks.peers.catalog import PEERS
from benchmarks.peers.launchers import JVM, PROGRAMS, Launcher, MavenPeer, PythonPeer, Settings
from benchmarks.peers.report import markdown, rows
from benchmarks.peers.running import measure
from samzapy.bench.measuring import Measurement, MeasurementFailed

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


def measured(cpu_s, **more):
    return Measurement(
        messages=1_000_000, seconds=2.0, cpu_s=cpu_s, cpu_whole_s=cpu_s, peak_rss={"tree": 64 * 1024 * 1024}, more=more
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


def test_the_page_has_a_row_per_peer_and_why_others_are_missing():
    runs = {PEERS[0].label: [measured(2.0, committed_cpu_s=2.5)]}
    text = markdown({"keyed-count": rows(PEERS, "keyed-count", runs)}, {"Bytewax": "no wheel for this Python"})
    assert "| samzapy | 500 (500 - 500) | 2.00 (2.00 - 2.00) | 2.50 (2.50 - 2.50) | 1.0 (1.0 - 1.0) | 64 |" in text
    assert "- Bytewax: not measured: no wheel for this Python" in text


def test_every_peer_says_what_it_keeps_and_has_a_pinned_version():
    assert PEERS[0].name == "samzapy"
    assert len({peer.label for peer in PEERS}) == len(PEERS)
    for peer in PEERS:
        assert set(peer.keeps) == {"keyed-count", "pass-through"}, peer.name
        if isinstance(peer.launcher, MavenPeer):
            assert peer.version in (JVM / peer.launcher.pom).read_text()
            assert (JVM / "peers" / f"{peer.launcher.main}.java").is_file()
        if isinstance(peer.launcher, PythonPeer):
            assert all(f"=={peer.version}" in each for each in peer.launcher.requirements)
            assert (PROGRAMS / peer.launcher.program).is_file()


def test_the_command_of_every_peer_names_the_run(tmp_path):
    run = settings(tmp_path)
    for peer in PEERS:
        for workload in peer.keeps:
            line = " ".join(peer.launcher.command(replace(run, workload=workload)))
            assert all(part in line for part in (run.bootstrap, run.input, run.id, str(run.marks))), peer.name
