"""A task that names the class of its messages."""

import msgspec

from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask


class View(msgspec.Struct):
    user: str


class TypedTask(StreamTask[str, View], InitableTask):
    def init(self, context):
        assert context.task.message_type(SystemStream("local", "in")) is View
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, len(envelope.message.user))
