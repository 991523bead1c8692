"""Each life-cycle twenty times: memory, objects, threads, descriptors and handles of librdkafka are after the twentieth
round what they were after the fifth. And what is counted, or kept until a commit, goes back to nothing."""

import gc
import json
import linecache
import logging
import os
import tracemalloc
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection
from random import Random

import pytest

from samzapy import CoroutineTask, InitableTask, OutgoingMessageEnvelope, StreamTask, SystemStream
from samzapy.api.stream import SystemStreamPartition as Ssp
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.config.error_policy import Action, ErrorConfig, ErrorPolicy, Stage
from samzapy.container.errors.recovery import LOG_S, Recovery
from samzapy.container.errors.user_failures import HandledFailures
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.service import CoordinatorService
from samzapy.coordinator.wire import AttemptProcess, JobSpec
from samzapy.job.lease import ContainerReport
from samzapy.job.planner import ContainerModel, JobModel, TaskModel
from samzapy.metrics import Registry
from samzapy.storage.backup.folder import open_folder
from samzapy.storage.backup.snapshot import SnapshotUploader
from samzapy.storage.local.marker import Marker, StoreIdentity
from samzapy.system.clients import system_factory
from samzapy.system.local.factory import MemoryCluster
from samzapy.testing import ManualClock, TaskTestDriver, open_store

OUT = SystemStream("mem", "out")
ROUNDS, SETTLED = 20, 5
#: Bytes that fifteen rounds may add: a list that doubles, an interned name.
SLACK = 40_000


class Counting(StreamTask, InitableTask):
    def init(self, context):
        self.counts = context.get_store("counts")

    def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)
        collector.send(OutgoingMessageEnvelope(OUT, envelope.message, key=envelope.key))
        if envelope.message == "fail":
            raise ValueError("told to")


class CountingAsync(CoroutineTask, InitableTask):
    async def init(self, context):
        self.counts = context.get_store("counts")

    async def process(self, envelope, collector, coordinator):
        self.counts.put(envelope.key, (self.counts.get(envelope.key) or 0) + 1)


JOB = {
    "task.inputs": "mem.in",
    "task.commit.ms": "50000",
    "task.error.process.policy": "skip",
    "systems.mem.default.stream.samza.key.serde": "string",
    "systems.mem.default.stream.samza.msg.serde": "json",
    "stores.counts.factory": "rocksdb",
    "stores.counts.key.serde": "string",
    "stores.counts.msg.serde": "json",
    "stores.counts.changelog": "mem.counts-log",
}


def whole_life(task):
    """A container's start, commit, crash within a commit, restore, iterator and stop."""

    def round_(number, folder):
        with TaskTestDriver(task, JOB) as driver:
            for key in ("a", "b", "c", "b"):
                driver.send("in", "fail" if key == "c" else "x", key=key)
            driver.commit()
            driver.crash(at="commit.4", during=lambda: (driver.send("in", "x", key="a"), driver.commit()))
            driver.restart()
            with driver.store("counts").all() as entries:
                next(iter(entries))
            driver.stop()

    return round_


def opened_store(number, folder):
    job = {"job.name": "j", "task.class": "a:B", "task.inputs": "mem.in", "systems.mem.samza.factory": "memory"}
    below = {key: value for key, value in JOB.items() if key.startswith("stores.")}
    with open_store({**job, **below}, "counts", folder / "state", ManualClock()) as opened:
        opened.store.put_all({f"{n}": n for n in range(50)})
        opened.store.delete("7")
        opened.commit()
        with opened.store.range("1", "3") as some, opened.store.snapshot("1", "3") as kept:
            next(iter(some)), next(iter(kept.iterator()))
    MemoryCluster.reset_all()


def clients_of(factory, **properties):
    def round_(number, folder):
        given = {name: text.format(folder) for name, text in properties.items()}
        settings = SystemSettings("s", factory, properties=given)
        made = system_factory(settings)
        admin, ssp = made.admin(settings, "c"), Ssp("s", "t", 0)
        admin.create(StreamSpec("t", 1))
        admin.delete("t")
        admin.create(StreamSpec("t", 1))
        producer, consumer = made.producer(settings, "c", "id"), made.consumer(settings, "c")
        producer.init_transactions()
        for end in (producer.commit, producer.abort):
            producer.begin()
            producer.send([OutgoingRecord("t", b"k", b"v", 0)])
            end()
        consumer.start({ssp: 0})
        assert consumer.poll(0.0, 10)
        for client in (admin, producer, consumer):
            client.close()
        MemoryCluster.reset_all()

    return round_


def kafka_handles(number, folder):
    """Clients for an address where nobody answers."""
    dead = {"bootstrap.servers": "127.0.0.1:1"}
    settings = SystemSettings("s", "samzapy.system.kafka:KafkaSystemFactory", consumer=dead, producer=dead)
    made = system_factory(settings)
    for client in (made.admin(settings, "c"), made.producer(settings, "c"), made.consumer(settings, "c")):
        client.close()


COORDINATOR = Coordinator(
    "job",
    JobSpec(JobModel((ContainerModel("0", (TaskModel("Partition 0", frozenset(), 0),)),)), {}),
    5.0,
    ManualClock(),
)


def attempt(number, folder):
    """A container registers, beats, and is lost."""
    epoch = COORDINATOR.register("0", AttemptProcess("here", 1, 2, number))
    for commits in range(3):
        COORDINATOR.report(ContainerReport("0", epoch, "running", processed=commits))
    COORDINATOR.status()
    COORDINATOR.report(ContainerReport("0", epoch, "failed"))


def snapshot(number, folder):
    backup = open_folder((folder / "backup").as_uri(), {}, "job-1", "s", "Partition_0")
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / "data").write_bytes(b"%d" % number)
    SnapshotUploader(backup, 1).upload(
        folder / "files", Marker(StoreIdentity("job-1", "s", 0, "t"), number, number + 1)
    )
    assert len(backup.indexes()) == 1


LIVES = {
    "container": whole_life(Counting),
    "asynchronous": whole_life(CountingAsync),
    "store": opened_store,
    "memory": clients_of("samzapy.system.local.factory:MemorySystemFactory", cluster="twenty"),
    "local": clients_of("samzapy.system.local:LocalSystemFactory", path="{}/log.db"),
    "kafka": kafka_handles,
    "coordinator": attempt,
    "snapshot": snapshot,
}


def held():
    """What this process holds: objects of our types, bytes, threads, descriptors."""
    gc.collect()
    linecache.clearcache()
    kinds = Counter(type(each).__qualname__ for each in gc.get_objects() if type(each).__module__.startswith("samzapy"))
    threads = sum(1 for _ in os.scandir("/proc/self/task"))
    return kinds, tracemalloc.get_traced_memory()[0], threads, sum(1 for _ in os.scandir("/proc/self/fd"))


@pytest.mark.parametrize("life", LIVES)
def test_a_life_cycle_leaves_nothing_behind(life, tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    tracemalloc.start()
    try:
        for number in range(ROUNDS):
            if number == SETTLED:
                before = held()
            LIVES[life](number, tmp_path)
        after = held()
    finally:
        tracemalloc.stop()
    assert not after[0] - before[0]
    assert after[1] - before[1] < SLACK
    assert (after[2], after[3]) == (before[2], before[3])


def test_a_reader_of_the_page_gives_back_its_connection(caplog):
    counts = []
    with closing(CoordinatorService(COORDINATOR, "token")) as service:
        for number in range(ROUNDS):
            reader = HTTPConnection(service.url.removeprefix("http://"), timeout=60)
            reader.request("GET", "/events", headers={"authorization": "Bearer token"})
            events = reader.getresponse()
            assert json.loads(events.readline().removeprefix(b"data: "))["job"] == "job"
            counts.append(held())
            for each in (events, reader) if number < ROUNDS - 1 else ():
                each.close()
    # The last one was still there when the service ended.
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    events.close(), reader.close()
    assert not counts[-1][0] - counts[SETTLED][0]
    assert counts[-1][2:] == counts[SETTLED][2:]


def test_twenty_commits_keep_nothing_of_the_changes(caplog):
    caplog.set_level(logging.CRITICAL)
    sizes = []
    small = {"stores.counts.object.cache.size": "5", "stores.counts.write.batch.size": "3"}
    with TaskTestDriver(Counting, {**JOB, **small}) as driver:
        tracemalloc.start()
        try:
            for number in range(ROUNDS):
                store = driver.store("counts")
                for key in range(500):
                    store.put(f"{number:03}-{key:05}", key)
                driver.commit()
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()

    # The records of the changelog are not in Python's memory.
    assert sizes[-1] - sizes[SETTLED] < 500 * (ROUNDS - SETTLED) * 20


def test_every_failure_is_in_one_line_or_in_the_count_of_one(caplog):
    clock, random, calls = ManualClock(), Random(0), Counter()
    policies = ErrorConfig(dict.fromkeys(Stage, ErrorPolicy(Action.SKIP)))
    recovery = Recovery("t", policies, Registry(), lambda _: None, clock, None, HandledFailures())
    stages = [Stage.PROCESS, Stage.SERIALIZE]

    def fails(stage):
        calls[stage.value] += 1
        recovery.give_up(stage, ValueError())

    for _ in range(300):
        fails(random.choice(stages))
        clock.advance(random.choice([0.0, 1.0, 6.0]))
    clock.advance(LOG_S)
    for stage in stages:
        fails(stage)
    told = Counter()
    for record in caplog.records:
        line = record.getMessage()
        told[line.split()[1]] += 1 + (int(line.split("(and ")[1].split()[0]) if "(and " in line else 0)
    assert told == calls
