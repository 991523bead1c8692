"""Tasks of several kinds, for replays."""

from samzapy.api.collector import Sink
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.event_time import TimerClock
from samzapy.api.stream import SystemStream
from samzapy.api.task import AsyncStreamTask, InitableTask, StreamTask, TimerTask

OUT = SystemStream("local", "out")


class CallbackTask(AsyncStreamTask, InitableTask):
    """Ends its messages by callbacks; `bad` ones by a failure."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def process_async(self, envelope, collector, coordinator, callback):
        if envelope.message.get("bad"):
            callback.failure(KeyError(envelope.key))
            return
        callback.complete(lambda: self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1))


class RecordedSink(Sink):
    """Notes whether it was ever opened."""

    calls: list[str] = []  # noqa: RUF012  # over all instances

    name = "recorded"

    def open(self, attempt):
        self.calls.append("open")
        return {}

    def commit(self, offsets):
        self.calls.append("commit")

    def close(self):
        """Nothing is open."""


class SinkTask(StreamTask, InitableTask):
    def init(self, context):
        context.task.register_sink(RecordedSink())

    def process(self, envelope, collector, coordinator):
        """Nothing to do."""


class ReminderTask(StreamTask, TimerTask, InitableTask):
    """Sends the key two seconds after each message, by the event clock and by the wall clock."""

    def init(self, context):
        self.timers = context.task.timers

    def process(self, envelope, collector, coordinator):
        for clock in TimerClock:
            self.timers.schedule(envelope.key, envelope.event_time + 2_000, clock)
        if envelope.message.get("commit"):
            coordinator.commit()

    def on_timer(self, key, time_ms, collector, coordinator):
        collector.send(OutgoingMessageEnvelope(OUT, time_ms, key=key))
