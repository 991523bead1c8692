"""Outputs to a json stream that names no class: plain values, with ints of any size."""

import msgspec
import pytest

from samzapy import StreamTask, SystemStream
from samzapy.errors import SerdeError
from samzapy.testing import TaskTestDriver

OUT = SystemStream("sys", "out")
JOB = {"task.inputs": "sys.in", "systems.sys.default.stream.samza.msg.serde": "json"}


class Point(msgspec.Struct):
    at_x: int


class Sending(StreamTask):
    def process(self, envelope, collector, coordinator):
        collector.send_message(OUT, Point(1) if envelope.message == "point" else {"odd": {1}})


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("odd", "Type is not JSON serializable: set"),
        ("point", "takes a value of JSON, or an object of the class of msg.type, got Point"),
    ],
)
def test_an_object_that_is_no_value_of_json_is_refused(message, reason):
    with TaskTestDriver(Sending, JOB) as driver, pytest.raises(SerdeError, match=reason):
        driver.send("in", message)
