"""Tasks whose state is the order and the times of everything that has happened to them."""

from samzapy.api.event_time import TimerClock
from samzapy.api.task import BatchTask, CoroutineTask, InitableTask, StreamTask, TimerTask


class Trail(InitableTask, TimerTask):
    """Notes each message and each timer, with the time of the wall clock. Each message sets a timer, a second later."""

    def init(self, context):
        self.counts = context.get_store("counts")
        self.timers = context.task.timers

    def note(self, what, time_ms):
        self.counts.put("trail", [*(self.counts.get("trail") or []), [what, time_ms]])

    def seen(self, envelope):
        place = f"{envelope.ssp.stream}@{envelope.offset}"
        self.note(place, envelope.arrival_time)
        self.timers.schedule(place, envelope.arrival_time + 1_000, TimerClock.WALL)

    def on_timer(self, key, time_ms, collector, coordinator):
        self.note(key, time_ms)


class TrailTask(Trail, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.seen(envelope)


class TrailCoroutine(Trail, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        self.seen(envelope)


class TrailBatches(Trail, BatchTask):
    def process_batch(self, batch, collector, coordinator):
        for envelope in batch:
            self.seen(envelope)
