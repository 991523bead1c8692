"""Tasks that note what reaches them, for jobs in this process on a real Kafka."""

from typing import ClassVar

from samzapy import (
    DrainListenerTask,
    InitableTask,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
)


class Noting(StreamTask):
    """Notes the streams and numbers it processes; `crash_at` numbers end the attempt, once each."""

    log: ClassVar[list] = []
    crash_at: ClassVar[set] = set()

    def process(self, envelope, collector, coordinator):
        number = int(envelope.message)
        if number in self.crash_at:
            self.crash_at.discard(number)
            raise ValueError("told to")
        self.log.append((envelope.ssp.stream, number))
        self.after(number, envelope, collector)

    def after(self, number, envelope, collector):
        return


class Echo(Noting, InitableTask, DrainListenerTask):
    """Hands messages on, and says -1 when it is drained."""

    def init(self, context):
        self.output = SystemStream.parse(context.job.config["test.output"])

    def after(self, number, envelope, collector):
        collector.send(OutgoingMessageEnvelope(self.output, envelope.message, key=b"k"))

    def on_drain(self, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(self.output, b"-1", key=b"k"))
