"""Tasks with something wrong, by name."""

import os

from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask


class Idle(StreamTask):
    def process(self, envelope, collector, coordinator):
        pass


class Counting(StreamTask, InitableTask):
    def init(self, context):
        self.store = context.get_store("s")

    def process(self, envelope, collector, coordinator):
        self.store.put(envelope.key, (self.store.get(envelope.key) or 0) + 1)


class Copying(Counting):
    """Also sends each message to the stream that is named after its input."""

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        collector.send_message(SystemStream("kafka", f"{envelope.ssp.stream}-out"), envelope.message, envelope.key)


class NullKey(Counting):
    def process(self, envelope, collector, coordinator):
        self.store.put(None, 1)


class NullValue(Counting):
    def process(self, envelope, collector, coordinator):
        self.store.put("k", None)


class Oversize(Counting):
    def process(self, envelope, collector, coordinator):
        self.store.put("big", "x" * 2_000_000)


class UnknownStore(StreamTask, InitableTask):
    def init(self, context):
        context.get_store("sessions")

    def process(self, envelope, collector, coordinator):
        pass


class Raising(StreamTask):
    def process(self, envelope, collector, coordinator):
        raise ValueError("no such airline")


class Exiting(StreamTask):
    def process(self, envelope, collector, coordinator):
        raise SystemExit(0)


class Interrupting(StreamTask):
    def process(self, envelope, collector, coordinator):
        raise KeyboardInterrupt


class Leaving(Counting):
    """Ends the process as nothing can catch: no commit, no clean-up."""

    def process(self, envelope, collector, coordinator):
        super().process(envelope, collector, coordinator)
        os._exit(7)


class ReturningCoroutine(Counting):
    """No coroutine function, so nothing can tell before it is called."""

    def process(self, envelope, collector, coordinator):
        return self.later(envelope)

    async def later(self, envelope):
        super().process(envelope, None, None)


class Abstract(StreamTask):
    pass


class NoTask:
    def process(self, envelope, collector, coordinator):
        pass


NOT_A_CLASS = Idle()
