from __future__ import annotations

import signal
import sys

import psutil
import pytest

from samzapy.bench import measuring
from samzapy.bench.events import Events, load_events
from samzapy.bench.measuring import MeasurementFailed, measure, measure_job
from samzapy.bench.tasks import CLOSED, READY, append_mark, read_stretch
from samzapy.config.loader import load_job

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


def test_a_program_is_measured_by_its_report_and_its_processes():
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
    program = "import sys; print('no broker', file=sys.stderr); sys.exit(3)"
    with pytest.raises(MeasurementFailed, match=r"exit code 3: no broker") as caught:
        measure(["-c", program, "--config", "my.password=hunter2"])
    assert (caught.value.exit_code, "hunter2" in str(caught.value)) == (3, False)


@pytest.mark.parametrize("line", ["good bye", "3", '{"messages": 3}'])
def test_a_program_whose_last_line_is_no_report_is_no_measurement(line):
    with pytest.raises(MeasurementFailed, match="its last line of output is no report: "):
        measure(["-c", f"print({line!r})"])


def test_output_in_another_encoding_is_no_obstacle():
    said = f"import sys; sys.stdout.buffer.write(b'gr\\xf6\\xdfe\\n'); sys.stdout.flush(){BUSY}"
    assert measure(["-c", said]).messages == 500_000


@pytest.fixture
def deaf():
    """Programs that this process starts begin with ignoring requests to stop."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_program_over_its_time_is_killed_with_its_descendants(deaf, monkeypatch, tmp_path):
    monkeypatch.setattr(measuring, "_LONGEST_STOP_S", 0.5)
    sleeping = [sys.executable, "-c", "import time; time.sleep(30)", str(tmp_path)]
    with pytest.raises(MeasurementFailed, match="not done after 1 s"):
        measure(["-c", f"import subprocess; subprocess.run({sleeping!r})"], timeout_s=1.0)
    left = [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in (each.info["cmdline"] or ())]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []


CHATTY = """
import atexit
from samzapy import Pipeline, StreamTask

pipeline = Pipeline("peeking")
pipeline.stream("local.in").peek(print)


class Chatty(StreamTask):
    def init(self, context):
        atexit.register(print, "good bye")

    def process(self, envelope, collector, coordinator):
        if "user" not in envelope.message:
            raise ValueError("told to")
        print("a message", end="")
"""


@pytest.fixture
def chatty(tmp_path):
    """A job whose task prints, also at its end."""
    (tmp_path / "chatty.py").write_text(CHATTY)
    (tmp_path / "job.properties").write_text(
        "job.name=chatty\ntask.class=chatty:Chatty\ntask.inputs=local.in\nsystems.local.samza.factory=local\n"
        f"systems.local.path={tmp_path / 'log.db'}\nsystems.local.samza.msg.serde=json\n"
        "systems.local.samza.offset.default=oldest\n"
    )
    job = load_job(tmp_path / "job.properties")
    load_events(job.systems["local"], job.task.inputs[0], Events(10))
    return tmp_path / "job.properties"


def test_what_a_task_prints_is_no_part_of_the_report(chatty, monkeypatch):
    assert measure_job(chatty).messages == 10
    monkeypatch.chdir(chatty.parent)
    keys = {"systems.local.samza.factory": "local", "systems.local.path": "log.db"}
    assert measure_job("chatty:pipeline", keys).messages == 10


def test_the_failure_of_a_task_that_prints_is_told(chatty):
    (chatty.parent / "chatty.py").write_text(CHATTY.replace('"user" not in', '"user" in'))
    with pytest.raises(MeasurementFailed, match=r"exit code 1: .*ValueError: told to"):
        measure_job(chatty)


def test_marks_of_an_attempt_that_did_not_close_do_not_count(tmp_path):
    path = tmp_path / "marks"
    assert read_stretch(path) is None
    append_mark(str(path), READY)
    assert read_stretch(path) is None
    append_mark(str(path), READY)
    append_mark(str(path), CLOSED)
    append_mark(str(path), CLOSED)
    stretch = read_stretch(path)
    assert stretch.start < stretch.end
    assert stretch.cpu_s >= 0
