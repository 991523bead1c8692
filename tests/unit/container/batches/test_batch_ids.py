"""Ids of outputs in effectively-once: those of the inputs that the task names, wherever batches end."""

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jobs.ledgers import JOB, OUT

from samzapy import BatchTask, InitableTask, OutgoingMessageEnvelope, SystemStream
from samzapy.api.envelope import ID_HEADER, OutputId
from samzapy.errors import TaskFailed
from samzapy.testing import TaskTestDriver

EFFECTIVELY = {"task.guarantee": "effectively-once"}
OTHER = SystemStream("sys", "other")


class Fanning(BatchTask, InitableTask):
    """Sends as many outputs of each message as it says, to two streams, the later inputs first."""

    def init(self, context):
        """Nothing to prepare."""

    def process_batch(self, batch, collector, coordinator):
        pairs = list(zip(batch.offsets, batch.messages, strict=True))
        for stream in (OUT, OTHER):
            wide = [(offset, n) for offset, count in reversed(pairs) for n in range(count)]
            collector.send_batch(stream, None, [list(each) for each in wide], inputs=[offset for offset, _ in wide])


def ids_of(outputs):
    return {OutputId.of(each.headers)[1:]: (each.message, each.ssp.partition) for each in outputs}


def cut_into(messages, size):
    with TaskTestDriver(Fanning, JOB | EFFECTIVELY | {"task.batch.max.messages": str(size)}) as driver:
        driver.send_batch("in", None, messages)
        return [(ids_of(found), list(ids_of(found))) for found in (driver.outputs("out"), driver.outputs("other"))]


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
def test_an_output_has_one_id_content_and_partition_wherever_batches_end(messages, size):
    (ids, order), other = cut_into(messages, size)
    assert ((ids, order), other) == tuple(cut_into(messages, 0))
    assert order == sorted(order)
    assert len(ids) == sum(messages)


class Sending(BatchTask):
    """Does what the test says."""

    def process_batch(self, batch, collector, coordinator):
        type(self).send(batch, collector)


def sending(send, messages=(1, 2), **keys):
    Sending.send = staticmethod(send)
    with TaskTestDriver(
        Sending, JOB | EFFECTIVELY | {key.replace("_", "."): value for key, value in keys.items()}
    ) as driver:
        driver.send_batch("in", None, list(messages))
        return driver.outputs("out")


def test_an_output_without_an_input_is_refused():
    with pytest.raises(
        TaskFailed, match=r"process_batch of sys\.in\[0\]@0 to 1 sends to sys\.out without inputs.*inputs=batch"
    ):
        sending(lambda batch, collector: collector.send_batch(OUT, None, batch.messages))
    with pytest.raises(TaskFailed, match="without inputs"):
        sending(lambda batch, collector: collector.send(OutgoingMessageEnvelope(OUT, 1)))
    with pytest.raises(TaskFailed, match="without inputs"):
        sending(lambda batch, collector: collector.send_message(OUT, 1, "key"), messages=[1])


def test_an_input_that_is_not_in_the_batch_is_refused():
    with pytest.raises(TaskFailed, match="with input 7: expected an offset of the batch"):
        sending(lambda batch, collector: collector.send_batch(OUT, None, [1], inputs=[7]))


def test_an_input_for_each_output_is_needed():
    with pytest.raises(TaskFailed, match="got 2 messages beside 1 inputs"):
        sending(lambda batch, collector: collector.send_batch(OUT, None, [1, 2], inputs=[0]))


def test_the_inputs_may_be_a_column_of_a_frame():
    def send(batch, collector):
        frame = pd.DataFrame({"message": [1, 2], "input": batch.offsets})
        rest = frame[frame["input"] > 0]
        collector.send_batch(OUT, None, rest["message"], inputs=rest["input"])

    assert sending(send).messages == [2]


def test_with_batches_of_one_the_input_is_known():
    def send(batch, collector):
        collector.send(OutgoingMessageEnvelope(OUT, batch.messages[0], "k", headers=[("mine", b"1")], timestamp=77))
        collector.send_message(OUT, batch.messages[0])
        collector.send_batch(OUT, ["k"], [9])

    found = sending(send, task_batch_max_messages="1")
    assert [OutputId.of(each.headers)[1:] for each in found] == [(o, n) for o in range(2) for n in range(3)]
    assert [name for name, _ in found[0].headers] == [ID_HEADER, "mine"]
    assert found[0].event_time == 77


def test_an_empty_batch_of_outputs_needs_no_inputs():
    assert sending(lambda batch, collector: collector.send_batch(OUT, None, [])) == []


def test_what_is_sent_from_an_input_has_its_id():
    def send(batch, collector):
        for each in batch:
            from_it = collector.from_input(each.offset)
            from_it.send(OutgoingMessageEnvelope(OUT, each.message, "k", headers=[("mine", b"1")], timestamp=77))
            from_it.send_message(OUT, each.message)
            from_it.send_batch(OUT, ["k"], [9])

    found = sending(send)
    assert [OutputId.of(each.headers)[1:] for each in found] == [(o, n) for o in range(2) for n in range(3)]
    assert [name for name, _ in found[0].headers] == [ID_HEADER, "mine"]
    assert found[0].event_time == 77
    with pytest.raises(TaskFailed, match="with input 7: expected an offset of the batch"):
        sending(lambda batch, collector: collector.from_input(7).send_message(OUT, 1))
