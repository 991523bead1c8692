"""A job that has run, for replays: its streams, its runs, and what a replay of it finds."""

import json
from contextlib import closing
from pathlib import Path

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.api.task import BatchTask, CoroutineTask, InitableTask, StreamTask, WindowableTask
from samzapy.config.loader import load_job
from samzapy.errors import SamzapyError
from samzapy.replay.attempt import opened_replay
from samzapy.replay.plan import Request, plan_replay
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

HERE = "replayed_job"
OUT = SystemStream("local", "out")
BASE_MS = 1_700_000_000_000


class Counting(InitableTask):
    """Counts the messages of each key; `bad` ones fail, `commit` asks for a commit, `delete` forgets the key."""

    def init(self, context):
        self.counts = context.get_store("counts")

    def count(self, envelope, collector, coordinator):
        message = envelope.message
        if message.get("bad"):
            raise ValueError(f"{message['bad']} is bad")
        if message.get("delete"):
            self.counts.delete(envelope.key)
        else:
            count = (self.counts.get(envelope.key) or 0) + 1
            self.counts.put(envelope.key, count)
            collector.send(OutgoingMessageEnvelope(OUT, count, key=envelope.key))
        if message.get("commit"):
            coordinator.commit()


class CountingTask(Counting, StreamTask):
    def process(self, envelope, collector, coordinator):
        self.count(envelope, collector, coordinator)


class CountingCoroutine(Counting, CoroutineTask):
    async def process(self, envelope, collector, coordinator):
        self.count(envelope, collector, coordinator)


class CountingBatches(Counting, BatchTask):
    def process_batch(self, batch, collector, coordinator):
        for envelope in batch:
            self.count(envelope, collector, coordinator)


class WindowedCounts(Counting, StreamTask, WindowableTask):
    def process(self, envelope, collector, coordinator):
        self.count(envelope, collector, coordinator)

    def window(self, collector, coordinator):
        self.counts.put("windows", (self.counts.get("windows") or 0) + 1)


JOB = """
job.name=replayed
job.default.system=local
job.logged.store.base.dir={folder}/state
systems.local.samza.factory=local
systems.local.path={folder}/local.db
systems.local.default.stream.samza.key.serde=string
systems.local.default.stream.samza.msg.serde=json
systems.local.default.stream.samza.offset.default=oldest
task.class={module}:CountingTask
task.inputs=local.in
task.commit.ms=-1
stores.counts.factory=rocksdb
stores.counts.key.serde=string
stores.counts.msg.serde=json
stores.counts.changelog=local.counts-log
"""


class ReplayedJob:
    """A job on the local system of a folder."""

    def __init__(self, folder: Path, text: str = JOB, **keys):
        self.file = folder / "job.properties"
        added = "".join(f"{key.replace('__', '.')}={value}\n" for key, value in keys.items())
        self.file.write_text(text.format(folder=folder, module=HERE) + added)
        self.config = load_job(self.file)
        self.settings = self.config.systems["local"]
        self.admin = system_factory(self.settings).admin(self.settings, "test")

    def create(self, *streams, partitions=1):
        for stream in streams:
            self.admin.create(StreamSpec(stream, partitions))

    def send(self, messages, stream="in", partition=0):
        """Messages as (key, object), or (key, object, seconds)."""
        with closing(system_factory(self.settings).producer(self.settings, "test")) as producer:
            producer.send(
                [
                    OutgoingRecord(
                        stream,
                        key.encode(),
                        json.dumps(message).encode(),
                        partition,
                        timestamp=BASE_MS + int(1000 * (seconds[0] if seconds else 0)),
                    )
                    for key, message, *seconds in messages
                ]
            )
            producer.flush()

    def run(self):
        """Run to the end of the inputs; returns the error that has ended the run, None for none."""
        try:
            LocalRunner().run(prepare(self.config, until_end=True), RunOptions())
        except SamzapyError as error:
            return error
        return None

    def compact(self, stream="counts-log"):
        return self.admin.compact(stream)

    def ends(self):
        """The end of every partition of every stream."""
        ssps = [
            SystemStreamPartition("local", stream, number)
            for stream in self.admin.list_streams()
            for number in range(self.admin.describe(stream).partitions)
        ]
        return {str(ssp): found.upcoming for ssp, found in self.admin.offsets(ssps).items()}

    def plan(self, until, **given):
        return plan_replay(self.config, Request(str(until), **given))

    def replay(self, until, **given):
        """The steps, and the entries of the store at the end."""
        with opened_replay(self.config, self.plan(until, **given)) as replay:
            steps = list(replay.steps())
            return steps, counted(replay), replay

    def replay_only(self, until, **given):
        """As `replay`, of a job without the store of counts."""
        with opened_replay(self.config, self.plan(until, **given)) as replay:
            return list(replay.steps()), {}, replay

    def state(self, until, **given):
        """The entries of the store as of the commit that a replay begins with."""
        with opened_replay(self.config, self.plan(until, **given)) as replay:
            return counted(replay)


def counted(replay):
    return {key.decode(): json.loads(value) for key, value in replay.entries("counts").items()}
