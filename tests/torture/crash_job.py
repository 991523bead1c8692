"""A job whose outcome tells what happened to every input: ids out, and a fold per key in the store."""

import json
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from samzapy import BatchTask, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream, SystemStreamPartition
from samzapy.admin.running import NO_DRIVER
from samzapy.admin.take_over import adopt
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.checkpoint import manager_for
from samzapy.checkpoint.records import read_owner, write_owner
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.errors import SamzapyError
from samzapy.runner.prepare import prepare
from samzapy.system.clients import job_clients, system_factory


class LedgerTask(StreamTask, InitableTask):
    """Keeps the ids seen per key, in order; deletes a key that is told to go; echoes every id."""

    def init(self, context):
        self.ledger = context.get_store("ledger")
        self.out = SystemStream(context.task.task_name and "sys", context.job.config["test.out"])

    def process(self, envelope, collector, coordinator):
        ids = self.ledger.get(envelope.key) or []
        self.ledger.put(envelope.key, [*ids, envelope.message])
        collector.send(OutgoingMessageEnvelope(self.out, envelope.message, key=envelope.key))


class LedgerBatchTask(BatchTask, InitableTask):
    """As LedgerTask, a batch at a time."""

    def init(self, context):
        self.ledger = context.get_store("ledger")
        self.out = SystemStream("sys", context.job.config["test.out"])

    def process_batch(self, batch, collector, coordinator):
        kept = {key: list(ids or []) for key, ids in self.ledger.get_all(set(batch.keys)).items()}
        for key, message in zip(batch.keys, batch.messages, strict=True):
            kept[key].append(message)
        self.ledger.put_all(kept)
        collector.send_batch(self.out, batch.keys, batch.messages, inputs=batch.offsets)


def run_job(flat, clock=SYSTEM_CLOCK):
    """Run a job's containers as one, in this process, to the ends that the inputs have now."""
    config = load_job(flat)
    prepared = prepare(config, until_end=True)
    model = replace(prepared.model.containers[0], tasks=prepared.model.tasks)
    coordinator = Coordinator(config.name, JobSpec(prepared.model, config.raw, prepared.ends), 5.0)
    return build_container(config, model, LocalLease(coordinator, "0"), ends=prepared.ends, clock=clock).run()


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
        self.took_s = None
        self._read = {}
        self._outputs = Counter()
        self._state = {}

    def send(self, n):
        """Append the next n ids, spread over partitions and keys."""
        ids = range(self.sent, self.sent + n)
        self.sent += n
        self._producer.send(
            [
                OutgoingRecord(
                    f"{self.prefix}-in", key_of(i).encode(), json.dumps(i).encode(), partition_of(i, self.partitions)
                )
                for i in ids
            ]
        )
        self._producer.flush()

    def append_change(self, key, value):
        """Write bytes to the changelog behind the job's back, where the key's other records are; the record's
        `stream[partition]@offset`."""
        example = next(i for i in range(KEYS) if key_of(i) == key)
        stream, partition = f"{self.prefix}-changelog", partition_of(example, self.partitions)
        self._producer.send([OutgoingRecord(stream, key.encode(), value, partition)])
        return f"{stream}[{partition}]@{self._producer.flush()[stream, partition]}"

    def run(self, clock=SYSTEM_CLOCK):
        """Run to the ends that the inputs have now; `took_s` is how long it took."""
        began = time.monotonic()
        report = run_job(self.flat, clock)
        self.took_s = time.monotonic() - began
        return report

    def recover(self, most=3):
        """Run until a run ends well; what the others, at the most `most`, failed with."""
        failures = []
        while True:
            try:
                self.run()
            except SamzapyError as failure:
                failures.append(failure)
                assert len(failures) <= most, failures
            else:
                return failures

    def numbers(self, faults):
        """What `outcome` is told of everything sent so far, and of the last run as the recovery."""
        guarantee = self.flat["task.guarantee"]
        return {
            "guarantee": guarantee,
            "system": self.flat["systems.sys.samza.factory"],
            "events": self.sent,
            "faults": faults,
            "recovery_s": self.took_s,
            **measured(self.outputs(), self.state(), range(self.sent), guarantee),
        }

    def outputs(self):
        """How often each id has come out so far, for a reader of committed records."""
        self._outputs.update(json.loads(value) for _, value in self.new_records(f"{self.prefix}-out"))
        return Counter(self._outputs)

    def state(self):
        """The changelog, replayed."""
        self._state |= {key.decode(): value for key, value in self.new_records(f"{self.prefix}-changelog")}
        return {key: json.loads(value) for key, value in self._state.items() if value is not None}

    @property
    def state_folder(self):
        """Below it lie the local stores."""
        return Path(self.flat["job.logged.store.base.dir"])

    def store_files(self, pattern="*"):
        """Files of the local stores that are in use, in an order of their own."""
        return sorted(path for path in self.state_folder.glob(f"*/ledger/Partition_?/{pattern}") if path.is_file())

    def adopt(self):
        """Make what the changelog holds now the job's own, as `samzapy store adopt` does in a process of its own."""
        with self._checkpoints() as checkpoints:
            write_owner(checkpoints, replace(read_owner(checkpoints), pid=NO_DRIVER))
        adopt(load_job(self.flat), [])

    def positions(self):
        """The committed position of each input partition, 0 where there is none."""
        with self._checkpoints() as checkpoints:
            found = checkpoints.read(f"Partition {number}" for number in range(self.partitions))
        kept = [checkpoint for checkpoint in found.values() if checkpoint]
        offsets = {ssp.partition: offset for each in kept for ssp, offset in each.input_offsets.items()}
        return [offsets.get(number, 0) for number in range(self.partitions)]

    @contextmanager
    def _checkpoints(self):
        config = load_job(self.flat)
        with closing(job_clients(config, "test")) as clients, closing(manager_for(config, clients)) as checkpoints:
            yield checkpoints

    def ids_before(self, positions):
        """The ids that lie before these positions, in the order they were sent."""
        sent = [0] * self.partitions
        for i in range(self.sent):
            partition = partition_of(i, self.partitions)
            sent[partition] += 1
            if sent[partition] <= positions[partition]:
                yield i

    def set_aside(self):
        """Names of stores that were put out of the way."""
        return sorted(path.name for path in self.state_folder.glob("*/ledger/*.*-*"))

    def close(self):
        self._producer.close()
        self.admin.close()

    def new_records(self, stream):
        """What was appended since the last call."""
        ssps = [SystemStreamPartition("sys", stream, p) for p in range(self.admin.describe(stream).partitions)]
        ranges = self.admin.offsets(ssps)
        consumer = self._consumer()
        consumer.start({ssp: self._read.get(ssp, ranges[ssp].oldest) for ssp in ssps})
        records = []
        while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
            for batch in consumer.poll(0.2, 5_000):
                records += zip(batch.keys, batch.values, strict=True)
        self._read |= {ssp: ranges[ssp].upcoming for ssp in ssps}
        consumer.close()
        return records


#: Every key is one of the first so many ids'.
KEYS = 14


def key_of(i):
    return f"key-{i % 7}-{i % 2}"


def partition_of(i, partitions):
    """Where an id goes: all ids of a key to the same partition."""
    return (i % 7 * 2 + i % 2) % partitions


def fold(ids, before=None):
    """What the store holds when every id was applied once, in order, to what it held before."""
    state = {key: list(kept) for key, kept in (before or {}).items()}
    for i in ids:
        state.setdefault(key_of(i), []).append(i)
    return state


def measured(outputs, state, ids, guarantee, before=None):
    """What came of `ids`, applied to a store that held `before`: lost, duplicated and mismatching, as `outcome` takes
    them.

    Lost: ids missing in the outputs or the state. Duplicated: outputs too many, and at-most-once also ids applied
    twice. Mismatches: keys whose state is not the fold.
    """
    exact = fold(ids, before)
    applied = Counter(i for kept in state.values() for i in kept)
    twice = applied if guarantee == "at-most-once" else Counter()
    return {
        "lost": sum(1 for i in ids if not outputs[i] or not applied[i]),
        "duplicated": sum(outputs.values()) - sum(1 for i in ids if outputs[i]) + sum(n - 1 for n in twice.values()),
        "mismatches": sum(1 for key in exact.keys() | state.keys() if exact.get(key) != state.get(key)),
    }
