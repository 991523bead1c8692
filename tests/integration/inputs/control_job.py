"""Tasks that note what reaches them, for jobs in this process on a real Kafka."""

from typing import ClassVar

from samzapy import (
    DrainListenerTask,
    EndOfStream,
    EndOfStreamListenerTask,
    InitableTask,
    OutgoingMessageEnvelope,
    StreamTask,
    SystemStream,
    TimerTask,
    Watermark,
    WatermarkListenerTask,
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


class Reminding(Noting, InitableTask, TimerTask):
    """A timer a message, a few seconds of event time later, sent when it fires."""

    def init(self, context):
        self.timers = context.task.timers
        self.output = SystemStream.parse(context.job.config["test.output"])

    def after(self, number, envelope, collector):
        self.timers.schedule(number, envelope.event_time + 5_000)

    def on_timer(self, key, time_ms, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(self.output, b"%d" % key, key=b"k"))


class Echo(Noting, InitableTask, DrainListenerTask):
    """Hands messages on, and says -1 when it is drained."""

    def init(self, context):
        self.output = SystemStream.parse(context.job.config["test.output"])

    def after(self, number, envelope, collector):
        collector.send(OutgoingMessageEnvelope(self.output, envelope.message, key=b"k"))

    def on_drain(self, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(self.output, b"-1", key=b"k"))


class FirstStage(Noting, InitableTask, EndOfStreamListenerTask):
    """Hands messages on, with its event time after each, and its end."""

    def init(self, context):
        self.output = SystemStream.parse(context.job.config["test.output"])

    def after(self, number, envelope, collector):
        collector.send(OutgoingMessageEnvelope(self.output, envelope.message, key=b"%d" % number))
        collector.send_control(self.output, Watermark(envelope.event_time))

    def on_end_of_stream(self, collector, coordinator):
        collector.send_control(self.output, EndOfStream())


class SecondStage(Noting, InitableTask, WatermarkListenerTask, EndOfStreamListenerTask):
    """Sends every watermark it hears of."""

    def init(self, context):
        self.output = SystemStream.parse(context.job.config["test.output"])

    def on_watermark(self, time_ms, collector, coordinator):
        self.log.append(("watermark", time_ms))
        if ("watermark", time_ms) in self.crash_at:
            self.crash_at.discard(("watermark", time_ms))
            raise ValueError("told to")
        collector.send(OutgoingMessageEnvelope(self.output, b"%d" % time_ms, key=b"k"))

    def on_end_of_stream(self, collector, coordinator):
        self.log.append(("end", 0))
