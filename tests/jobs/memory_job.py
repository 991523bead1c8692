"""A small job on the memory system, run container by container in this process."""

import json
import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from samzapy import (
    ClosableTask,
    EndOfStreamListenerTask,
    InitableTask,
    OutgoingMessageEnvelope,
    RequestScope,
    StreamTask,
    SystemStream,
    SystemStreamPartition,
    WindowableTask,
)
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.clock import SYSTEM_CLOCK
from samzapy.config.loader import load_job
from samzapy.container.restart import build_container
from samzapy.coordinator.coordinator import Coordinator, LocalLease
from samzapy.coordinator.wire import JobSpec
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

OUT = SystemStream("mem", "out")
#: Two guarantees share the code of the others in many tests: `make test-slow` runs them there.
GUARANTEES = [
    pytest.param("at-most-once", marks=pytest.mark.slow),
    "at-least-once",
    pytest.param("effectively-once", marks=pytest.mark.slow),
    "exactly-once",
]


class Calls(list):
    """What was called, in order; a test can wait for it."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def append(self, call):
        with self._changed:
            super().append(call)
            self._changed.notify_all()

    def wait_for(self, call, times):
        """Block until `call` was made so many times."""
        with self._changed:
            assert self._changed.wait_for(lambda: sum(made[: len(call)] == call for made in self) >= times, 30)


class CountingTask(StreamTask, InitableTask, WindowableTask, ClosableTask, EndOfStreamListenerTask):
    """Counts by key; a message may carry an order to the task in `do`. `calls` is what happened, over all instances."""

    calls = Calls()

    def init(self, context):
        self.name = context.task.task_name
        self.counts = context.get_store("counts")
        self.calls.append(("init", self.name))

    def process(self, envelope, collector, coordinator):
        self.calls.append(("process", self.name, envelope.offset))
        count = (self.counts.get(envelope.key) or 0) + 1
        self.counts.put(envelope.key, count)
        collector.send(OutgoingMessageEnvelope(OUT, {"count": count, "id": envelope.message["id"]}, key=envelope.key))
        order = envelope.message.get("do")
        if order == "fail":
            raise ValueError("told to")
        if order == "exit":
            raise SystemExit(3)
        if order == "commit":
            coordinator.commit()
        if order == "commit-all":
            coordinator.commit(RequestScope.ALL_TASKS_IN_CONTAINER)
        if order == "vote":
            coordinator.shutdown()
        if order == "shutdown":
            coordinator.shutdown(RequestScope.ALL_TASKS_IN_CONTAINER)

    def window(self, collector, coordinator):
        self.calls.append(("window", self.name))

    def on_end_of_stream(self, collector, coordinator):
        self.calls.append(("end", self.name))

    def close(self):
        self.calls.append(("close", self.name))


class MemoryJob:
    """Topics `in` and `out` on a cluster of its own, and a job that counts from the one to the other."""

    def __init__(self, folder, partitions=2, task=CountingTask, **keys):
        task.calls = Calls()
        self.task = task
        self.flat = {
            "job.name": "counting",
            "job.default.system": "mem",
            "task.class": f"{task.__module__}:{task.__name__}",
            "task.inputs": "mem.in",
            "task.commit.ms": "-1",
            "systems.mem.samza.factory": "memory",
            "systems.mem.cluster": str(uuid4()),
            "systems.mem.default.stream.samza.key.serde": "string",
            "systems.mem.default.stream.samza.msg.serde": "json",
            "systems.mem.default.stream.samza.offset.default": "oldest",
            "stores.counts.factory": "rocksdb",
            "stores.counts.key.serde": "string",
            "stores.counts.msg.serde": "json",
            "stores.counts.changelog": "mem.counts-changelog",
            "stores.counts.write.batch.size": "3",
            "stores.counts.object.cache.size": "5",
            "job.logged.store.base.dir": str(folder),
        } | keys
        self.config = load_job(self.flat)
        settings = self.config.systems["mem"]
        factory = system_factory(settings)
        self.admin = factory.admin(settings, "test")
        self.producer = factory.producer(settings, "test")
        self._new_consumer = lambda: factory.consumer(settings, "test")
        for stream in ("in", "out"):
            self.admin.create(StreamSpec(stream, partitions))

    def send(self, *messages, stream="in"):
        """Append (partition, key, message) triples."""
        self.producer.send(
            [OutgoingRecord(stream, key.encode(), json.dumps(m).encode(), partition) for partition, key, m in messages]
        )
        self.producer.flush()

    def container(self, until_end=True, clock=SYSTEM_CLOCK, tasks=None, *, owned=False, **overrides):
        """A container with every task of the job, or with the first `tasks` of them, and the coordinator it reports to;
        `owned`: it knows its run."""
        run = Run(load_job(self.flat | overrides), until_end=until_end)
        return run.container(clock, tasks, owned=owned), run.coordinator

    def run(self, **overrides):
        """Run a container to the ends of the inputs; returns its last report."""
        return self.container(**overrides)[0].run()

    def read(self, stream):
        """Every (partition, key, value) of a stream, in order per partition."""
        description = self.admin.describe(stream)
        ssps = [SystemStreamPartition("mem", stream, p) for p in range(description.partitions)]
        ranges = self.admin.offsets(ssps)
        consumer = self._new_consumer()
        consumer.start({ssp: ranges[ssp].oldest for ssp in ssps})
        records = []
        while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
            for batch in consumer.poll(0.1, 1_000):
                records += [(batch.ssp.partition, k.decode(), v) for k, v in zip(batch.keys, batch.values, strict=True)]
        consumer.close()
        return records

    def values(self, stream):
        """Every value of a stream, of records without keys."""
        ssp = SystemStreamPartition("mem", stream, 0)
        consumer = self._new_consumer()
        consumer.start({ssp: 0})
        values = []
        end = self.admin.offsets([ssp])[ssp].upcoming
        while consumer.position(ssp) < end:
            values += [value for batch in consumer.poll(0.2, 1_000) for value in batch.values]
        consumer.close()
        return values

    def outputs(self):
        """Every output as (key, message)."""
        return [(key, json.loads(value)) for _, key, value in self.read("out")]

    def changelog(self):
        """The changelog replayed: what a store restored from it alone would hold."""
        state = {}
        for _, key, value in self.read("counts-changelog"):
            state[key] = None if value is None else json.loads(value)
        return {key: value for key, value in state.items() if value is not None}


class Run:
    """One run of a job, whose container is made as often as a test wants."""

    def __init__(self, config, *, until_end=True):
        self._config = config
        self._prepared = prepare(config, until_end=until_end)
        spec = JobSpec(self._prepared.model, config.raw, self._prepared.ends)
        self.coordinator = Coordinator(config.name, spec, 5.0)

    def container(self, clock=SYSTEM_CLOCK, tasks=None, *, owned=True):
        """With every task of the job, or with the first `tasks` of them; `owned`: it knows its run."""
        prepared, lease = self._prepared, LocalLease(self.coordinator, "0")
        model = replace(prepared.model.containers[0], tasks=prepared.model.tasks[:tasks])
        run_id = prepared.run_id if owned else None
        return build_container(self._config, model, lease, ends=prepared.ends, clock=clock, run_id=run_id)
