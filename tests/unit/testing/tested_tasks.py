"""Tasks for the tests of the kit."""

import asyncio

from samzapy import (
    AsyncStreamTask,
    ClosableTask,
    CoroutineTask,
    InitableTask,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    WindowableTask,
)

OUT = SystemStream("sys", "out")


class Counting(StreamTask, InitableTask, WindowableTask, ClosableTask):
    """Counts by key; a message may be an order."""

    def init(self, context):
        self.counts = context.get_store("counts")
        self.windows = 0
        self.closed = False

    def process(self, envelope, collector, coordinator):
        if envelope.message == "fail":
            raise ValueError("told to")
        if envelope.message == "shutdown":
            coordinator.shutdown()
        if envelope.message == "commit":
            coordinator.commit()
        count = (self.counts.get(envelope.key) or 0) + 1
        self.counts.put(envelope.key, count)
        collector.send(OutgoingMessageEnvelope(OUT, count, key=envelope.key))

    def window(self, collector, coordinator):
        self.windows += 1

    def close(self):
        self.closed = True


class Doubling(CoroutineTask):
    """Waits before it answers."""

    async def process(self, envelope, collector, coordinator):
        await asyncio.sleep(0.025)  # longer than the run loop waits in one turn
        collector.send(OutgoingMessageEnvelope(OUT, 2 * envelope.message))


class HoldingBack(AsyncStreamTask):
    """Keeps its callbacks, and what belongs to them, for the test to complete."""

    def __init__(self):
        self.held = []

    def process_async(self, envelope, collector, coordinator, callback):
        self.held.append((envelope.message, collector, callback))

    def answer(self, index):
        message, collector, callback = self.held[index]
        collector.send(OutgoingMessageEnvelope(OUT, message))
        callback.complete()


JOB = {
    "task.inputs": "sys.in",
    "task.commit.ms": "20000",
    "task.window.ms": "5000",
    "systems.sys.default.stream.samza.key.serde": "string",
    "systems.sys.default.stream.samza.msg.serde": "json",
    "stores.counts.factory": "memory",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "long",
    "stores.counts.changelog": "sys.counts-log",
}
