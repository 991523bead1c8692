import pytest

from samzapy.config.loader import load_job
from samzapy.errors import ConfigError
from samzapy.examples.flights.load import load

JOB = {
    "job.name": "readers",
    "task.class": "samzapy.examples.page_views:PageViewCountTask",
    "task.inputs": "mem.flights",
    "systems.mem.samza.factory": "memory",
}


def test_streams_that_the_job_does_not_read_are_named_and_nothing_is_written():
    with pytest.raises(
        ConfigError, match=r"task.inputs: must name mem.planes, which is to be written, got 'mem.flights'"
    ):
        load(load_job(JOB), [("planes", []), ("flights", [])])
