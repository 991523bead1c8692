"""The twin of the Java task: five stores, one a serde; every message changes its key in each."""

from samzapy import InitableTask, StreamTask


class LedgerTask(StreamTask, InitableTask):
    def init(self, context):
        self.strings, self.integers, self.longs, self.jsons, self.bytes = (
            context.get_store(name) for name in ("strings", "integers", "longs", "jsons", "bytes")
        )

    def process(self, envelope, collector, coordinator):
        key, message = envelope.key, envelope.message
        if message == "bye":
            return
        if message == "gone":
            self.strings.delete(key)
            return
        before = self.strings.get(key)
        self.strings.put(key, message if before is None else f"{before},{message}")
        self.integers.put(key, (self.integers.get(key) or 0) + 1)
        self.longs.put(len(key), (self.longs.get(len(key)) or 0) + 10_000_000_000)
        seen = self.jsons.get(key) or {"count": 0}
        self.jsons.put(key, {"last": message, "count": seen["count"] + 1})
        self.bytes.put(key.encode(), message.encode("utf-16-be"))
