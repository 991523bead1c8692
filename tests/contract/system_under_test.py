"""A system as the contract suite uses it."""

import uuid
from itertools import count

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.clock import SYSTEM_CLOCK
from samzapy.system.clients import system_factory

DEADLINE_S = 30.0


class SystemUnderTest:
    """A system, and short ways to do with it what a test wants; closes every client it has made."""

    def __init__(self, settings):
        self.settings = settings
        self.name = settings.name
        self.factory = system_factory(settings)
        self._clients = []
        self._numbers = count()
        self.admin = self._kept(self.factory.admin(settings, "test-admin"))

    def create(self, partitions=1, **config):
        """A new stream; config keys with `_` for `.`. Returns its name."""
        name = f"stream-{uuid.uuid4().hex[:12]}"
        spec = StreamSpec(name, partitions, {key.replace("_", "."): value for key, value in config.items()})
        assert self.admin.create(spec) is True
        return name

    def ssp(self, stream, partition=0):
        return SystemStreamPartition(self.name, stream, partition)

    def producer(self, transactional_id=None, timeout_ms=60_000):
        client_id = f"test-producer-{next(self._numbers)}"
        return self._kept(self.factory.producer(self.settings, client_id, transactional_id, timeout_ms))

    def transactional(self, transactional_id=None):
        producer = self.producer(transactional_id or f"id-{uuid.uuid4().hex[:12]}")
        producer.init_transactions()
        return producer

    def write(self, stream, *values, partition=0, key=b"k"):
        """Write and flush values to one partition; returns the last offset."""
        producer = self.producer()
        producer.send([OutgoingRecord(stream, key, value, partition) for value in values])
        return producer.flush()[stream, partition]

    def reader(self, *positions):
        """A started consumer of (ssp, offset) pairs."""
        consumer = self._kept(self.factory.consumer(self.settings, f"test-consumer-{next(self._numbers)}"))
        consumer.start(dict(positions))
        return consumer

    def upcoming(self, ssp):
        return self.admin.offsets([ssp])[ssp].upcoming

    def oldest(self, ssp):
        return self.admin.offsets([ssp])[ssp].oldest

    def read(self, stream, partition=0, offset=None, consumer=None):
        """Every committed record of the partition up to its upcoming offset now, as (offset, key, value)."""
        ssp = self.ssp(stream, partition)
        bound = self.upcoming(ssp)
        if consumer is None:
            consumer = self.reader((ssp, self.oldest(ssp) if offset is None else offset))
        found = []
        for batches in polls(consumer, lambda: consumer.position(ssp) >= bound):
            for batch in batches:
                if batch.ssp == ssp:
                    found.extend(zip(batch.offsets, batch.keys, batch.values, strict=True))
        return found

    def values(self, stream, partition=0):
        return [value for _, _, value in self.read(stream, partition)]

    def close(self):
        for client in reversed(self._clients):
            client.close()

    def _kept(self, client):
        self._clients.append(client)
        return client


def polls(consumer, done):
    """What each poll returns until `done()`; fails past the deadline."""
    deadline = SYSTEM_CLOCK.monotonic() + DEADLINE_S
    while not done():
        assert SYSTEM_CLOCK.monotonic() < deadline, "the consumer did not get there in time"
        yield consumer.poll(0.2, 1000)
