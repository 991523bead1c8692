"""Tasks whose inputs are deleted and created again while they run."""

import json
from collections import Counter
from typing import ClassVar

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.task import SideInputsProcessor


class Totals(StreamTask, InitableTask):
    """Counts the messages of each input, and sends each count. `processed` is what this process has processed."""

    processed: ClassVar[Counter] = Counter()

    def init(self, context):
        self.totals = context.get_store("totals")
        self.output = SystemStream.parse(context.job.config["test.output"])

    def process(self, envelope, collector, coordinator):
        stream = envelope.ssp.stream
        total = (self.totals.get(stream) or 0) + 1
        self.totals.put(stream, total)
        told = json.dumps([stream, total, envelope.message.decode()]).encode()
        collector.send(OutgoingMessageEnvelope(self.output, told, key=stream.encode()))
        self.processed[stream] += 1


class Table(SideInputsProcessor):
    """Keeps each side input's message by its key."""

    def process(self, message, store):
        return [(message.key.decode(), message.message.decode())]


class Looking(StreamTask, InitableTask):
    """Sends all entries of its table at each message."""

    def init(self, context):
        self.table = context.get_store("table")
        self.output = SystemStream.parse(context.job.config["test.output"])

    def process(self, envelope, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(self.output, json.dumps(dict(self.table.all())).encode(), key=b"k"))
