from __future__ import annotations

import pytest

from samzapy.bench.measuring import MeasurementFailed, Phase, measure, phases
from samzapy.bench.tasks import CLOSED, READY, append_mark, read_stretch

BUSY = """
import json, time
start, cpu = time.monotonic(), time.process_time()
held = bytearray(64 * 1024 * 1024)
while time.process_time() - cpu < 0.3:
    # Every page again and again: a machine short of memory takes away what is not in use.
    held[::4096] = bytes(len(held) // 4096)
told = {"start": start, "end": time.monotonic(), "cpu_s": time.process_time() - cpu, "messages": 500_000}
print("something else first")
print(json.dumps({**told, "more": {"commits": 2}}))
"""


def test_a_program_is_measured_by_what_it_tells_and_what_its_processes_used():
    measured = measure(["-c", BUSY])
    assert measured.messages == 500_000
    assert 0.3 <= measured.cpu_s <= measured.seconds + 0.05
    assert measured.cpu_s_per_million == pytest.approx(2 * measured.cpu_s)
    assert measured.peak_rss["main"] == measured.peak_rss["tree"] > 64 * 1024 * 1024
    assert measured.more == {"commits": 2}
    assert measured.to_json()["messages_per_s"] == pytest.approx(measured.messages_per_s, abs=0.1)


def test_cpu_of_child_processes_counts():
    parent = (
        "import json, subprocess, sys, time; start = time.monotonic();"
        "subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.6: pass']);"
        "print(json.dumps({'start': start, 'end': time.monotonic(), 'cpu_s': 0.0, 'messages': 1}))"
    )
    measured = measure(["-c", parent])
    assert measured.cpu_s >= 0.3
    assert set(measured.peak_rss) == {"main", "worker", "tree"}


def test_a_program_that_fails_is_no_measurement():
    with pytest.raises(MeasurementFailed, match=r"exit code 3: no broker"):
        measure(["-c", "import sys; print('no broker', file=sys.stderr); sys.exit(3)"])


def test_phases_tell_throughput_by_partitions_that_are_open():
    timeline = [
        (1.0, 0, 100),
        (1.01, 1, 100),
        (2.0, 0, 300),
        (2.0, 1, 150),
        (2.01, 1, 150),
        (4.01, 0, 300),
        (4.01, 1, 350),
    ]
    assert phases([]) == ()
    first, second = phases(timeline)
    assert first == Phase(pytest.approx(1.01), pytest.approx(250 / 1.01), 1)
    assert second == Phase(pytest.approx(2.0), pytest.approx(100.0), 0)


def test_marks_of_an_attempt_that_did_not_close_do_not_count(tmp_path):
    path = tmp_path / "marks"
    assert read_stretch(path) is None
    append_mark(str(path), READY)
    assert read_stretch(path) is None
    append_mark(str(path), READY)
    append_mark(str(path), CLOSED, [(2.0, 1, 10), (1.0, 1, 5)], [30, 10])
    append_mark(str(path), CLOSED, [(1.5, 0, 7)], [20])
    stretch = read_stretch(path)
    assert stretch.start < stretch.end
    assert stretch.cpu_s >= 0
    assert stretch.timeline == ((1.0, 1, 5), (1.5, 0, 7), (2.0, 1, 10))
    assert stretch.latencies_ns == (30, 10, 20)
