"""Outputs by column: the same records as by envelopes, and errors that name the output."""

import pytest
from jobs.ledgers import JOB, OUT

from samzapy import BatchTask, OutgoingMessageEnvelope
from samzapy.api.serde import Serde, SerdeFactory
from samzapy.errors import SerdeError, TaskFailed
from samzapy.testing import TaskTestDriver


class Sending(BatchTask):
    """Does what the test says."""

    def process_batch(self, batch, collector, coordinator):
        type(self).send(collector)


def sent(send, **keys):
    Sending.send = staticmethod(send)
    with TaskTestDriver(
        Sending, JOB | {key.replace("_", "."): value for key, value in keys.items()}, partitions=3
    ) as driver:
        driver.send("in", 1)
        return [each[1:] for each in driver.outputs("out")]


COLUMNS = {
    "keys": ["a", None, "c", "d"],
    "messages": [1, {"x": 2}, None, 4],
    "partition_keys": [None, 2, "z", "a"],
    "timestamps": [1000, None, 3000, 4000],
    "headers": [None, [("h", b"1")], None, [("h", None)]],
}


def test_columns_are_sent_as_envelopes_are():
    def by_envelope(collector):
        for key, message, place, time, headers in zip(*COLUMNS.values(), strict=True):
            collector.send(OutgoingMessageEnvelope(OUT, message, key, place, headers, time))

    def by_column(collector):
        collector.send_batch(OUT, **COLUMNS, inputs=[0] * 4)

    assert sent(by_column) == sent(by_envelope)
    assert sent(by_column, task_error_produce_policy="skip") == sent(by_envelope)


class Reluctant(Serde):
    """Its way to refuse a value is the one of an iterator without a next element."""

    def to_bytes(self, value):
        return next(str(each).encode() for each in (value,) if each != 2)

    def from_bytes(self, data):
        return data.decode()


class ReluctantFactory(SerdeFactory):
    def serde(self, name, properties):
        return Reluctant()


@pytest.mark.parametrize(("column", "outputs"), [("key", [1, 2, 3]), ("msg", None), ("msg", ["a", "b", "c"])])
def test_a_serde_that_stops_early_loses_no_output_behind_a_refused_one(column, outputs):
    keys = {
        "serializers.registry.reluctant.class": f"{__name__}:ReluctantFactory",
        f"systems.sys.streams.out.samza.{column}.serde": "reluctant",
    }
    with pytest.raises(SerdeError, match=r"output 1 of a batch, from the input at offset 0"):
        sent(lambda collector: collector.send_batch(OUT, outputs, [1, 2, 3], inputs=[0, 0, 0]), **keys)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(TaskFailed, match="expected columns of one length, got 2 messages"):
        sent(lambda collector: collector.send_batch(OUT, ["a"], [1, 2]))


def test_odd_times_and_headers_are_refused_as_those_of_envelopes():
    with pytest.raises(TaskFailed, match="timestamp: expected whole milliseconds"):
        sent(lambda collector: collector.send_batch(OUT, None, [1], timestamps=[1.5]))
    with pytest.raises(TaskFailed, match="headers: expected"):
        sent(lambda collector: collector.send_batch(OUT, None, [1], headers=[["x"]]))
    with pytest.raises(TaskFailed, match="expected a SystemStream to send to"):
        sent(lambda collector: collector.send_batch("out", None, [1]))
