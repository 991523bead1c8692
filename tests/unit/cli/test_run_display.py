import io
import logging
from dataclasses import replace

from rich.console import Console

from samzapy.cli.progress import RunDisplay, summary, terminal_log
from samzapy.config.supervision import LogConfig
from samzapy.coordinator.status import ContainerStatus, JobStatus, RestoredStore


def status(phase="running", processed=0, remaining=None, restored=(), restoring=None) -> JobStatus:
    container = ContainerStatus(
        id="0",
        state="running",
        phase=phase,
        attempts=1,
        epoch=5,
        processed=processed,
        commits=2,
        remaining=remaining,
        restoring=restoring,
    )
    return JobStatus(name="job", seconds=2.0, containers=(container,), restored=tuple(restored))


RESTORED = RestoredStore("0", "Partition 0/s", 5, 1_200, 0.5, "changelog")


def shown(*statuses: JobStatus, terminal: bool = False) -> str:
    out = io.StringIO()
    with RunDisplay(Console(file=out, force_terminal=terminal, width=120)) as display:
        for each in statuses:
            display.status(each)
        display.event("a [bracket] is no markup, and user:id:7 no picture")
    return out.getvalue()


def test_without_a_terminal_each_phase_and_restore_is_one_line():
    told = shown(status("restoring"), status("restoring"), status(restored=[RESTORED]), status(restored=[RESTORED]))
    assert told.splitlines() == [
        "container 0: restoring",
        "container 0: running",
        "container 0: restored 1,200 records in 0.50 s from changelog",
        "a [bracket] is no markup, and user:id:7 no picture",
    ]


def test_on_a_terminal_there_is_a_bar_for_the_way_to_the_end():
    told = shown(status(remaining=80), status(remaining=20, processed=60), terminal=True)
    assert "60/80" in told


def test_the_summary_says_what_the_promise_did_not_cover():
    counted = replace(status(processed=10), counts={"errors.process.skipped": 2, "guarantee.offsets-skipped": 7})
    assert summary(counted).endswith("; 2 inputs skipped (process); 7 offsets after the checkpoint skipped")


def test_a_terminal_has_no_traceback_and_no_failure_twice():
    out, failure = io.StringIO(), (ValueError, ValueError("no"), None)
    handler = terminal_log(LogConfig(), "job", Console(file=out, width=200))
    for name, text in (("container.restart", "last"), ("tasks", "sent\nTraceback (most recent call"), ("tasks", "own")):
        handler.handle(logging.LogRecord(f"samzapy.{name}", logging.ERROR, "", 0, text, None, failure))
    assert [line.rpartition(": ")[2] for line in out.getvalue().splitlines()] == ["sent", "own", "no"]
