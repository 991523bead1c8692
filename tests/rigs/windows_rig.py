"""Windows on a store with commits and crashes, without a container, and naive sessions to compare them with.

Results count when they are committed.
"""

from dataclasses import replace

from rigs.store_rig import LOGGED, store_job

from samzapy import (
    ContainerContext,
    Context,
    IncomingMessageEnvelope,
    JobContext,
    MessageCollector,
    SystemStream,
    SystemStreamPartition,
)
from samzapy.container.tasks.context import ContainerTaskContext
from samzapy.metrics import Registry
from samzapy.operators.windows import EventTimeWindows, WindowResult
from samzapy.testing import ManualClock, open_store

LATE = SystemStream("mem", "late")


def job(engine="inmemory", **keys):
    return store_job(LOGGED | {"factory": engine}, "windows") | keys


def ssp(partition, stream="in"):
    return SystemStreamPartition("mem", stream, partition)


class Sent(MessageCollector):
    """What was sent since the last commit, and before: results, and envelopes of what was late."""

    def __init__(self):
        self.pending, self.committed = [], []

    def send(self, envelope):
        self.pending.append(envelope)

    def send_control(self, stream, message):
        self.pending.append(message)

    @property
    def results(self):
        return [each for each in [*self.committed, *self.pending] if isinstance(each, WindowResult)]

    @property
    def late(self):
        return [each for each in [*self.committed, *self.pending] if not isinstance(each, WindowResult)]


class WindowsRig:
    """One task's windows. `sent` has its results, and what it sent to LATE."""

    def __init__(self, opened, aggregation, partitions=1, streams=("in",), config=None):
        # The clock has nothing to do with the times of most tests.
        self.config = {"task.event.time.max.ahead.ms": "0", **(config or {})}
        self.opened = opened
        self.clock = ManualClock()
        self.ssps = [ssp(n, stream) for stream in streams for n in range(partitions)]
        self.sent = Sent()
        self._aggregation = aggregation
        self.start()

    def start(self):
        """Open the windows on what the store holds."""
        self.metrics = Registry()
        offsets = dict.fromkeys(self.ssps, 0)
        stores = {"windows": self.opened.store}
        task = ContainerTaskContext("Partition 0", stores, offsets, self.metrics, 1)
        context = Context(
            JobContext("windows", "1", self.config), ContainerContext("0", self.metrics, self.clock), task
        )
        aggregation = replace(self._aggregation, output=lambda result, collector: collector.send(result))
        self.windows = EventTimeWindows(context, "windows", aggregation)

    def add(self, key, time, value=1, partition=0, stream="in"):
        envelope = IncomingMessageEnvelope(ssp(partition, stream), 7, key, value, event_time=time)
        return self.windows.add(envelope, key, value, self.sent)

    def advance(self, seconds=0.0):
        """Let time pass and close what is over; returns the results of it."""
        self.clock.advance(seconds)
        return self._results_of(self.windows.advance)

    def finish(self):
        return self._results_of(self.windows.finish)

    def commit(self):
        self.opened.commit()
        self.sent.committed += self.sent.pending
        self.sent.pending.clear()

    def crash(self):
        """Forget everything since the last commit, and start again."""
        self.sent.pending.clear()
        self.opened.crash()
        self.start()

    def _results_of(self, call):
        before = len(self.sent.pending)
        call(self.sent)
        return self.sent.pending[before:]


def opened_store(path, engine="inmemory", **keys):
    return open_store(job(engine, **keys), "windows", path)


def sessions_of(times, gap):
    """Sorted (time, value) pairs, cut where the gap is; no code of the product."""
    cut = []
    for each in sorted(times):
        if cut and each[0] - cut[-1][-1][0] < gap:
            cut[-1].append(each)
        else:
            cut.append([each])
    return cut
