"""A task that names the class of its messages."""

import msgspec

from samzapy.api.task import InitableTask, StreamTask


class View(msgspec.Struct):
    user: str


class TypedTask(StreamTask[str, View], InitableTask):
    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, len(envelope.message.user))
