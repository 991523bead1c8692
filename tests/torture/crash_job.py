"""A job whose outcome tells what happened to every input: ids out, and a fold per key in the store."""

import json
from collections import Counter
from dataclasses import replace

from samzapy import InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.factory import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.model import JobSpec
from samzapy.runner.prepare import prepare
from samzapy.system.factories import system_factory


class LedgerTask(StreamTask, InitableTask):
    """Keeps the ids seen per key, in order; deletes a key that is told to go; echoes every id."""

    def init(self, context):
        self.ledger = context.get_store("ledger")
        self.out = SystemStream(context.task.task_name and "sys", context.job.config["test.out"])

    def process(self, envelope, collector, coordinator):
        ids = self.ledger.get(envelope.key) or []
        self.ledger.put(envelope.key, [*ids, envelope.message])
        collector.send(OutgoingMessageEnvelope(self.out, envelope.message, key=envelope.key))


class CrashJob:
    """The ledger over one system; every run is a new container in this process, as a new attempt would be."""

    def __init__(self, system_keys, prefix, folder, guarantee, partitions=2):
        self.prefix = prefix
        self.partitions = partitions
        self.flat = {
            "job.name": f"ledger-{prefix}",
            "job.default.system": "sys",
            "task.class": "crash_job:LedgerTask",
            "task.inputs": f"sys.{prefix}-in",
            "task.commit.ms": "50000",
            "task.guarantee": guarantee,
            "systems.sys.default.stream.samza.key.serde": "string",
            "systems.sys.default.stream.samza.msg.serde": "json",
            "systems.sys.default.stream.samza.offset.default": "oldest",
            "stores.ledger.factory": "rocksdb",
            "stores.ledger.key.serde": "string",
            "stores.ledger.msg.serde": "json",
            "stores.ledger.changelog": f"sys.{prefix}-changelog",
            "stores.ledger.changelog.replication.factor": "1",
            "task.checkpoint.replication.factor": "1",
            "stores.ledger.write.batch.size": "2",
            "stores.ledger.object.cache.size": "4",
            "job.logged.store.base.dir": str(folder),
            "test.out": f"{prefix}-out",
        } | system_keys
        settings = load_job(self.flat).systems["sys"]
        factory = system_factory(settings)
        self.admin = factory.admin(settings, "test")
        self._consumer = lambda: factory.consumer(settings, "test")
        self._producer = factory.producer(settings, "test")
        for stream in ("in", "out"):
            self.admin.create(StreamSpec(f"{prefix}-{stream}", partitions))
        self.sent = 0

    def send(self, n):
        """Append the next n ids, spread over partitions and keys."""
        ids = range(self.sent, self.sent + n)
        self.sent += n
        self._producer.send(
            [
                OutgoingRecord(f"{self.prefix}-in", key_of(i).encode(), json.dumps(i).encode(), i % self.partitions)
                for i in ids
            ]
        )
        self._producer.flush()

    def run(self, **overrides):
        config = load_job(self.flat | overrides)
        prepared = prepare(config, until_end=True)
        model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
        coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 5.0)
        return build_container(config, model, LocalLease(coordinator, "0"), ends=prepared.ends).run()

    def outputs(self):
        """How often each id came out, for a reader of committed records."""
        return Counter(json.loads(value) for _, value in self._read(f"{self.prefix}-out"))

    def state(self):
        """The changelog, replayed."""
        state = {key.decode(): value for key, value in self._read(f"{self.prefix}-changelog")}
        return {key: json.loads(value) for key, value in state.items() if value is not None}

    def close(self):
        self._producer.close()
        self.admin.close()

    def _read(self, stream):
        ssps = [SystemStreamPartition("sys", stream, p) for p in range(self.admin.describe(stream).partitions)]
        ranges = self.admin.offsets(ssps)
        consumer = self._consumer()
        for ssp in ssps:
            consumer.register(ssp, ranges[ssp].oldest)
        consumer.start()
        records = []
        while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
            for batch in consumer.poll(0.2, 5_000):
                records += zip(batch.keys, batch.values, strict=True)
        consumer.close()
        return records


def key_of(i):
    return f"key-{i % 7}-{i % 2}"


def fold(ids):
    """What the store holds when every id was applied once, in order."""
    state = {}
    for i in ids:
        state.setdefault(key_of(i), []).append(i)
    return state


def measured(outputs, state, ids, guarantee):
    """What came of `ids`, applied to an empty store: lost, duplicated and mismatching, as `outcome` takes them.

    Lost: ids missing in the outputs or the state. Duplicated: outputs too many, and at-most-once also ids applied twice.
    Mismatches: keys whose state is not the fold.
    """
    exact = fold(ids)
    applied = Counter(i for kept in state.values() for i in kept)
    twice = applied if guarantee == "at-most-once" else Counter()
    return {
        "lost": sum(1 for i in ids if not outputs[i] or not applied[i]),
        "duplicated": sum(n - 1 for n in outputs.values()) + sum(n - 1 for n in twice.values()),
        "mismatches": sum(1 for key in exact.keys() | state.keys() if exact.get(key) != state.get(key)),
    }
