"""The first start of an input, before anything is committed: what it leaves out is told."""

import logging

import pytest
from jobs.memory_job import MemoryJob

UPCOMING = {"systems.mem.default.stream.samza.offset.default": "upcoming"}


@pytest.fixture
def job(tmp_path):
    made = MemoryJob(tmp_path, partitions=2, **UPCOMING)
    made.send(*((number % 2, f"k{number}", {"id": number}) for number in range(5)))
    return made


def told(caplog, level):
    return [
        each.message for each in caplog.records if "offsets that are there" in each.message and each.levelno == level
    ]


def test_a_run_to_the_end_that_reads_nothing_says_why_once(job, caplog):
    with caplog.at_level(logging.INFO, "samzapy"):
        job.run()
        assert told(caplog, logging.WARNING) == [
            (
                "mem.in: 2 partitions are without a committed offset, so the job starts behind 5 offsets that are "
                "there; to read them, run it once with --config systems.mem.streams.in.samza.reset.offset=true "
                "--config systems.mem.streams.in.samza.offset.default=oldest"
            )
        ]
        caplog.clear()
        job.send((0, "a", {"id": 7}))
        job.run()
    assert told(caplog, logging.WARNING) == []
    assert [(key, value["id"]) for key, value in job.outputs()] == [("a", 7)]


def test_a_first_start_with_the_oldest_records_leaves_out_nothing(job, caplog):
    with caplog.at_level(logging.INFO, "samzapy"):
        job.run(**{"systems.mem.default.stream.samza.offset.default": "oldest"})
    assert told(caplog, logging.WARNING) == told(caplog, logging.INFO) == []
