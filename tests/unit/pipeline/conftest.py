"""A pipeline on its driver, for programs whose results are worked out by hand."""

from contextlib import ExitStack

import pytest

from samzapy.testing.pipeline import PipelineDriver

#: Event times are seconds behind this one, a full minute.
START = 1_700_000_040_000
_TICK = "tick"


class Flow:
    """A running pipeline. Times are in seconds behind START."""

    def __init__(self, driver, partitions):
        self.driver = driver
        self.partitions = range(partitions)

    def send(self, stream, key, message, second=0):
        self.driver.send(stream, message, key=key, timestamp=START + second * 1000)

    def pass_time(self, second, *streams, message=0):
        """Every partition of these streams gets a message of that time, and all steps get to know it."""
        for stream in streams:
            for partition in self.partitions:
                time_ms = START + second * 1000
                self.driver.send(stream, message, key=_TICK, partition=partition, timestamp=time_ms)
        self.settle()

    def settle(self):
        for _ in range(3):
            self.driver.advance(1)

    def by_key(self, stream):
        """The outputs of each key, in order, without those of `pass_time`."""
        result = {}
        for key, message in self.driver.outputs(stream).pairs:
            if key != _TICK:
                result.setdefault(key, []).append(message)
        return result


@pytest.fixture(params=[1, 2], ids=["one-partition", "two-partitions"])
def run(request):
    """Starts a pipeline."""
    with ExitStack() as stack:

        def start(pipeline, config=None):
            driver = PipelineDriver(pipeline, config or {}, partitions=request.param)
            return Flow(stack.enter_context(driver), request.param)

        yield start
