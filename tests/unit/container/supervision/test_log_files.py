"""The log files of a job: a disk that is full decides nothing about the job."""

import logging

import pytest

from samzapy.container.supervision.logs import PrivateFile


def full(*_):
    raise OSError(28, "No space left on device")


@pytest.fixture
def handler(tmp_path):
    made = PrivateFile(tmp_path / "driver.log")
    yield made
    made.close()


def test_lines_on_a_full_disk_are_lost_after_one_warning(handler, caplog, monkeypatch, capsys):
    monkeypatch.setattr(handler.stream, "write", full, raising=False)
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "a line"}))
    assert [record.getMessage() for record in caplog.records] == [
        f"{handler.baseFilename}: No space left on device (job.log.dir); further lines may be missing there"
    ]
    assert capsys.readouterr().err == ""
