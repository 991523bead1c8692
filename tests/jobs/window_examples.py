"""The windows' examples as jobs of a test, and their answers from the records in their inputs: lists, and no window
code."""

import json
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

from rigs.windows_rig import sessions_of

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.clients import system_factory

CONFIGS = Path(__file__).parents[2] / "configs"
PARTITIONS = 4
HOUR_MS, MINUTE_MS = 3_600_000, 60_000


class Example:
    """A job file with overrides; `streams` are its input, its output and where late messages go."""

    def __init__(self, name, streams, overrides):
        self.flat = overrides
        self.job = load_job(CONFIGS / f"{name}.properties", overrides)
        self.input, self.output, self.late = streams
        self._settings = self.job.systems["events"]
        self._factory = system_factory(self._settings)
        with closing(self._factory.admin(self._settings, "test")) as admin:
            for stream in streams:
                # What happened years ago is not to be removed for its age.
                admin.create(StreamSpec(stream, PARTITIONS, {"retention.ms": "-1"}))

    def run(self):
        """To the end of the input; returns how many messages were processed."""
        return LocalRunner().run(prepare(self.job, until_end=True), RunOptions()).status.processed

    def read(self, stream):
        """The committed records of each partition, in order: (key, time, message)."""
        ssps = [SystemStreamPartition("events", stream, number) for number in range(PARTITIONS)]
        with (
            closing(self._factory.admin(self._settings, "test")) as admin,
            closing(self._factory.consumer(self._settings, "test")) as consumer,
        ):
            ranges = admin.offsets(ssps)
            for ssp in ssps:
                consumer.register(ssp, ranges[ssp].oldest)
            consumer.start()
            found = [[] for _ in ssps]
            while any(consumer.position(ssp) < ranges[ssp].upcoming for ssp in ssps):
                for batch in consumer.poll(1.0, 20_000):
                    columns = zip(batch.keys, batch.timestamps, batch.values, strict=True)
                    found[batch.ssp.partition] += [
                        (key.decode(), time, json.loads(value)) for key, time, value in columns
                    ]
        return found

    def results(self):
        """The results: (key, start, end, value), of each partition in order."""
        found = []
        for records in self.read(self.output):
            for key, time, message in records:
                assert (message["key"], message["kind"]) == (key, "final")
                assert time <= message["end"] - 1
                found.append((key, message["start"], message["end"], message["value"]))
        return found

    def producer(self):
        return self._factory.producer(self._settings, "test")


def hours(partitions, grace_ms=3 * HOUR_MS):
    """The departures of each airport and hour, and the late ones, as sorted lists: what DeparturesPerHourTask is
    for."""
    counts, late = Counter(), []
    for records in partitions:
        newest = 0
        for key, time, message in records:
            newest = max(newest, time)
            start = time // HOUR_MS * HOUR_MS
            if start + HOUR_MS + grace_ms > newest:
                counts[message["origin"], start] += 1
            else:
                late.append((key, time, json.dumps(message)))
    return sorted((origin, start, start + HOUR_MS, n) for (origin, start), n in counts.items()), sorted(late)


def visits(partitions, gap_ms=30 * MINUTE_MS, grace_ms=5 * MINUTE_MS):
    """The sessions of each user, and the late page views: what VisitsTask is for."""
    taken, late = defaultdict(list), []
    for records in partitions:
        newest = 0
        for user, time, message in records:
            newest = max(newest, time)
            if time + grace_ms >= newest or any(
                each[0][0] <= time < each[-1][0] + gap_ms and each[-1][0] + gap_ms + grace_ms > newest
                for each in sessions_of(taken[user], gap_ms)
            ):
                taken[user].append((time, message["page"]))
            else:
                late.append((user, time, json.dumps(message)))
    found = []
    for user, views in taken.items():
        for each in sessions_of(views, gap_ms):
            value = {"views": len(each), "pages": sorted({page for _, page in each})}
            found.append((user, each[0][0], each[-1][0] + gap_ms, value))
    return sorted(found, key=lambda visit: visit[:3]), sorted(late)


def check(example, expected):
    """The example has sent what is expected; returns (results, late messages)."""
    windows, late = expected
    assert sorted(example.results(), key=lambda window: window[:3]) == windows
    aside = [
        (key, time, json.dumps(message)) for records in example.read(example.late) for key, time, message in records
    ]
    assert sorted(aside) == late
    return windows, late
