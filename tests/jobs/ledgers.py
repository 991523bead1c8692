"""One job for each executor. All keep the ids of each key in order, and echo every id."""

from samzapy import BatchTask, CoroutineTask, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream

OUT = SystemStream("sys", "out")

JOB = {
    "task.inputs": "sys.in",
    "task.commit.ms": "20000",
    "systems.sys.default.stream.samza.key.serde": "string",
    "systems.sys.default.stream.samza.msg.serde": "json",
    "stores.ledger.factory": "memory",
    "stores.ledger.key.serde": "string",
    "stores.ledger.msg.serde": "json",
    "stores.ledger.changelog": "sys.ledger-log",
}


def output_of(message):
    """The echo of an id; a message may ask for one that does not serialize, or is large."""
    order = message.get("do")
    if order == "odd":
        return {1}
    return {"id": message["id"]} | ({"padding": "x" * 2_000_000} if order == "large" else {})


def keep(ledger, envelope, collector):
    """Process one message."""
    key, message = envelope.key, envelope.message
    ledger.put(key, [*(ledger.get(key) or []), message["id"]])
    collector.send(OutgoingMessageEnvelope(OUT, output_of(message), key))
    if message.get("do") == "fail":
        raise ValueError("told to")


class Ledger(StreamTask, InitableTask):
    def init(self, context):
        self.ledger = context.get_store("ledger")

    def process(self, envelope, collector, coordinator):
        keep(self.ledger, envelope, collector)


class AsyncLedger(CoroutineTask, InitableTask):
    def init(self, context):
        self.ledger = context.get_store("ledger")

    async def process(self, envelope, collector, coordinator):
        keep(self.ledger, envelope, collector)


class BatchLedger(BatchTask, InitableTask):
    def init(self, context):
        self.ledger = context.get_store("ledger")
        self.sizes = []

    def process_batch(self, batch, collector, coordinator):
        self.sizes.append(len(batch))
        held = self.ledger.get_all(set(batch.keys))
        kept = {key: list(ids or []) for key, ids in held.items()}
        for key, message in zip(batch.keys, batch.messages, strict=True):
            kept[key].append(message["id"])
        self.ledger.put_all(kept)
        collector.send_batch(OUT, batch.keys, [output_of(message) for message in batch.messages], inputs=batch.offsets)
        if any(message.get("do") == "fail" for message in batch.messages):
            raise ValueError("told to")


def post(driver, ids, orders=None):
    """Let messages arrive, over three keys in two partitions; `orders` by id."""
    for i in ids:
        message = {"id": i} | ({"do": orders[i]} if orders and i in orders else {})
        driver.post("in", message, f"k{i % 3}", partition=i % 3 % 2)


def ids_by_key(outputs):
    found = {}
    for key, message in outputs.pairs:
        found.setdefault(key, []).append(message["id"])
    return found


def state(driver, partitions=2):
    return {key: ids for n in range(partitions) for key, ids in driver.store("ledger", n).all()}
