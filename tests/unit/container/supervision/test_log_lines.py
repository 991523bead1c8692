import json
import logging

import pytest

from samzapy.config.supervision import LogConfig
from samzapy.container.supervision.logs import (
    NEWEST_BYTES,
    CarriedLines,
    PrivateFile,
    container_logging,
    formatter,
    log_folder,
    newest_lines,
    process_logging,
    record_of,
)
from samzapy.job.lease import MOST_LINES, LogLine

LINE = LogLine(1_700_000_000_123, logging.INFO, "tasks.counts", "hello", "Partition 3", "kafka.in[3]@17")


@pytest.fixture
def log():
    return logging.getLogger("tests.log_lines")


def test_a_line_of_text_names_time_level_logger_and_place():
    text = formatter("counts-1", as_json=False).format(record_of(LINE, "2"))
    assert text == ("2023-11-14T22:13:20.123Z INFO tasks.counts [container 2, Partition 3, kafka.in[3]@17]: hello")


def test_a_line_of_a_driver_has_no_place():
    text = formatter("counts-1", as_json=False).format(record_of(LogLine(0, logging.ERROR, "x", "no"), ""))
    assert text == "1970-01-01T00:00:00.000Z ERROR x: no"


def test_a_line_of_json_has_every_part_as_a_field():
    assert json.loads(formatter("counts-1", as_json=True).format(record_of(LINE, "2"))) == {
        "time": "2023-11-14T22:13:20.123Z",
        "level": "INFO",
        "logger": "tasks.counts",
        "job": "counts-1",
        "container": "2",
        "task": "Partition 3",
        "position": "kafka.in[3]@17",
        "message": "hello",
    }


def test_lines_wait_for_a_report_with_their_tracebacks(log):
    carried = CarriedLines()
    failure = ValueError("\ud800")
    record = log.makeRecord(log.name, logging.ERROR, "", 0, "bad %s", ("luck",), (ValueError, failure, None))
    carried.handle(record)
    (line,), left_out = carried.take()
    assert (line.text.splitlines()[0], line.level, left_out) == ("bad luck", logging.ERROR, 0)
    assert line.text.endswith(r"ValueError: \ud800")
    assert carried.take() == ((), 0)


def test_of_too_many_lines_warnings_and_the_newest_are_kept(log):
    carried = CarriedLines()
    for number in range(3 * MOST_LINES):
        carried.handle(log.makeRecord(log.name, logging.INFO, "", 0, f"line {number}", (), None))
    carried.handle(log.makeRecord(log.name, logging.WARNING, "", 0, "careful", (), None))
    lines, left_out = carried.take()
    assert (len(lines), left_out) == (MOST_LINES, 2 * MOST_LINES + 1)
    assert {"careful", f"line {3 * MOST_LINES - 1}"} <= {line.text for line in lines}


def test_a_containers_lines_go_to_its_own_private_file_and_to_its_reports(tmp_path, log):
    config = LogConfig(folder=tmp_path / "logs")
    with container_logging(config, "counts-1", "0") as carried:
        log.info("hello")
        log.debug("too much")
    log.info("after the job")
    (line,), _ = carried.take()
    assert line.text == "hello"
    path = log_folder(config, "counts-1") / "container-0.log"
    assert path.read_text().endswith("INFO tests.log_lines [container 0]: hello\n")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_full_file_is_renamed_and_the_new_one_is_private_too(tmp_path, log):
    config = LogConfig(folder=tmp_path, max_bytes=10_000, files=2)
    with process_logging(config, "counts-1", "driver"):
        for _ in range(20):
            log.info("x" * 4_000)
    names = sorted(path.name for path in (tmp_path / "counts-1").iterdir())
    assert names == ["driver.log", "driver.log.1", "driver.log.2"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "counts-1").iterdir()} == {0o600}


def test_a_folder_that_cannot_be_made_costs_the_file_and_nothing_else(tmp_path, log):
    (tmp_path / "logs").write_text("a file")
    with container_logging(LogConfig(folder=tmp_path / "logs"), "counts-1", "0") as carried:
        log.info("hello")
    lines, _ = carried.take()
    assert [line.text for line in lines][1:] == ["hello"]
    assert lines[0].text.startswith("No log file is written: ")
    assert "job.log.dir" in lines[0].text


def test_the_logging_around_a_job_is_put_back(tmp_path):
    root, talkative = logging.getLogger(), logging.getLogger("py4j")
    before = (root.level, list(root.handlers), talkative.level)
    with process_logging(LogConfig(level=logging.DEBUG, folder=tmp_path), "counts-1", "driver"):
        assert (root.level, talkative.level) == (logging.DEBUG, logging.WARNING)
    assert (root.level, list(root.handlers), talkative.level) == before


def test_lines_on_a_full_disk_are_lost_after_one_warning(tmp_path, caplog, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    handler = PrivateFile(tmp_path / "driver.log")
    monkeypatch.setattr(handler.stream, "write", full, raising=False)
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "a line"}))
    handler.close()
    assert [record.getMessage() for record in caplog.records] == [
        f"{handler.baseFilename}: No space left on device (job.log.dir); further lines may be missing"
    ]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("files", "container", "lines"),
    [
        ({"driver": "a [container 0]: x\nb [container 1, T]: y"}, "1", "b [container 1, T]: y"),
        ({"driver": "a [container 0]: x\nb: y"}, "", "a [container 0]: x\nb: y"),
        ({"driver": "a [container 0]: x", "container-0": "own"}, "0", "own"),
        ({"container-0": "own"}, "", "own"),
        ({"container-0": "own"}, "../container-0", ""),
        ({}, "", ""),
    ],
)
def test_the_newest_lines_are_the_drivers_or_the_containers_own(tmp_path, files, container, lines):
    for name, text in files.items():
        (tmp_path / f"{name}.log").write_text(text)
    assert newest_lines(tmp_path, container) == lines


def test_the_newest_lines_of_a_large_log_are_bounded(tmp_path):
    (tmp_path / "driver.log").write_text("x" * 79 + "\n" * 10_000 + "last\n" * 60_000)
    found = newest_lines(tmp_path, "")
    assert len(found) < NEWEST_BYTES
    assert found.endswith("last")
