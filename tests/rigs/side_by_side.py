"""Runs of one job side by side, each in a thread of this process, on the memory system."""

import threading
import uuid
from collections import Counter
from contextlib import closing

from samzapy import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.errors import SamzapyError
from samzapy.failpoints import FailPointReached
from samzapy.runner.base import RunOptions
from samzapy.system.clients import system_factory

DEADLINE_S = 60.0
PARTITIONS = 2


class Run:
    """One start of a job in a thread: `start` runs it with the options that it gets."""

    def __init__(self, start):
        self._start = start
        self._seen = threading.Condition()
        self._processed = self._commits = 0
        self.events = []
        self.outcome = self.failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def goes_on(self):
        return self._thread.is_alive()

    def processed(self, number):
        """Wait until so many messages are processed."""
        with self._seen:
            assert self._seen.wait_for(lambda: self._processed >= number, DEADLINE_S), self.failure

    def committed(self, number):
        """Wait until so many messages are processed, and a commit was made after that."""
        with self._seen:
            assert self._seen.wait_for(lambda: self._processed >= number, DEADLINE_S), self.failure
            commits = self._commits
            assert self._seen.wait_for(lambda: self._commits > commits, DEADLINE_S), self.failure

    def join(self):
        """Wait for the end; returns the failure that ended the run."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.failure

    def _run(self):
        try:
            self.outcome = self._start(RunOptions(on_status=self._on_status, on_event=self.events.append))
        except (SamzapyError, FailPointReached) as failure:
            self.failure = failure

    def _on_status(self, status):
        with self._seen:
            self._processed, self._commits = status.processed, status.commits
            self._seen.notify_all()


class NumbersScene:
    """A job from `sys.in` to `sys.out`, and numbers that it sends on; `flat` is its configuration."""

    def __init__(self, name, task_class, **keys):
        self.flat = {
            "job.name": name,
            "job.default.system": "sys",
            "job.spark.lease.ms": "1500",
            "task.class": task_class,
            "task.inputs": "sys.in",
            "systems.sys.samza.factory": "memory",
            "systems.sys.cluster": uuid.uuid4().hex,
            "systems.sys.default.stream.samza.offset.default": "oldest",
            **keys,
        }
        settings = load_job(self.flat).systems["sys"]
        factory = system_factory(settings)
        self._producer = factory.producer(settings, "test")
        self._consumer = lambda: factory.consumer(settings, "test")
        self.admin = factory.admin(settings, "test")
        for stream in ("in", "out"):
            self.admin.create(StreamSpec(stream, PARTITIONS))
        self.sent = 0

    def send(self, count):
        numbers = range(self.sent, self.sent + count)
        self._producer.send([OutgoingRecord("in", b"k", b"%d" % n, n % PARTITIONS) for n in numbers])
        self._producer.flush()
        self.sent = numbers.stop

    def outputs(self):
        """How often each number was sent on."""
        ssps = [SystemStreamPartition("sys", "out", n) for n in range(PARTITIONS)]
        ranges, found = self.admin.offsets(ssps), Counter()
        with closing(self._consumer()) as consumer:
            consumer.start({ssp: ranges[ssp].oldest for ssp in ssps})
            while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
                for batch in consumer.poll(0.1, 5_000):
                    found.update(map(int, batch.values))
        return found
