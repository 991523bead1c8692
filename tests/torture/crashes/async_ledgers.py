"""The ledger with messages in flight: as coroutines that overtake each other, and as callbacks of a thread pool."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from samzapy import AsyncStreamTask, ClosableTask, CoroutineTask, InitableTask, OutgoingMessageEnvelope, SystemStream


class CoroutineLedger(CoroutineTask, InitableTask):
    """Later messages of a batch end before earlier ones."""

    def init(self, context):
        self.ledger = context.get_store("ledger")
        self.out = SystemStream("sys", context.job.config["test.out"])

    async def process(self, envelope, collector, coordinator):
        for _ in range(8 - envelope.message % 8):
            await asyncio.sleep(0)
        self.ledger.put(envelope.key, [*(self.ledger.get(envelope.key) or []), envelope.message])
        collector.send(OutgoingMessageEnvelope(self.out, envelope.message, key=envelope.key))


class CallbackLedger(AsyncStreamTask, InitableTask, ClosableTask):
    """Sends from a thread, changes the store where that is allowed."""

    def init(self, context):
        self.ledger = context.get_store("ledger")
        self.out = SystemStream("sys", context.job.config["test.out"])
        self.pool = ThreadPoolExecutor(4)

    def process_async(self, envelope, collector, coordinator, callback):
        def work():
            collector.send(OutgoingMessageEnvelope(self.out, envelope.message, key=envelope.key))
            callback.complete(lambda: self.keep(envelope))

        self.pool.submit(work)

    def keep(self, envelope):
        self.ledger.put(envelope.key, [*(self.ledger.get(envelope.key) or []), envelope.message])

    def close(self):
        self.pool.shutdown()
