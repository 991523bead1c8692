"""Tasks with something wrong, by name."""

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


class UnknownStore(StreamTask, InitableTask):
    def init(self, context):
        context.get_store("sessions")

    def process(self, envelope, collector, coordinator):
        pass


class Raising(StreamTask):
    def process(self, envelope, collector, coordinator):
        raise ValueError("no such airline")


class Interrupting(StreamTask):
    def process(self, envelope, collector, coordinator):
        raise KeyboardInterrupt


class Abstract(StreamTask):
    pass


class NoTask:
    def process(self, envelope, collector, coordinator):
        pass


NOT_A_CLASS = Idle()
