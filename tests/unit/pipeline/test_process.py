"""Steps of the user's own code."""

from samzapy.pipeline import Pipeline
from samzapy.testing.pipeline import PipelineDriver


def test_what_a_failed_call_has_sent_is_dropped():
    def process(number, handle):
        handle.send(number)
        if number == 2:
            raise ValueError("two")
        handle.send(-number)

    pipeline = Pipeline("numbers")
    pipeline.stream("kafka.in").process(process).to("kafka.out")
    with PipelineDriver(pipeline, {"task.error.process.policy": "skip"}) as driver:
        driver.send_batch("in", ["k"] * 3, [1, 2, 3])
        assert driver.outputs("out").messages == [1, -1, 3, -3]
