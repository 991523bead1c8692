"""The systems and streams of tests: a Kafka at an address, the streams of a job."""

from contextlib import closing

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings
from samzapy.system.clients import system_factory


class StreamsOf:
    """One system of a job."""

    def __init__(self, job, system):
        self._settings = job.systems[system]
        self._factory = system_factory(self._settings)

    def create(self, stream, partitions=1):
        with closing(self._factory.admin(self._settings, "test")) as admin:
            admin.create(StreamSpec(stream, partitions))

    def exists(self, stream):
        with closing(self._factory.admin(self._settings, "test")) as admin:
            return admin.describe(stream) is not None

    def send(self, stream, pairs):
        """Append (key, value) pairs, by key."""
        with closing(self._factory.producer(self._settings, "test")) as producer:
            producer.send([OutgoingRecord(stream, key, value) for key, value in pairs])
            producer.flush()

    def read(self, stream):
        """Every committed (key, value) that is there now, partition by partition."""
        with closing(self._factory.admin(self._settings, "test")) as admin:
            ssps = [
                SystemStreamPartition(self._settings.name, stream, number)
                for number in range(admin.describe(stream).partitions)
            ]
            ranges = admin.offsets(ssps)
        found = {ssp: [] for ssp in ssps}
        with closing(self._factory.consumer(self._settings, "test")) as consumer:
            consumer.start({ssp: oldest for ssp, (oldest, _) in ranges.items()})
            while any(consumer.position(ssp) < upcoming for ssp, (_, upcoming) in ranges.items()):
                for batch in consumer.poll(1.0, 10_000):
                    found[batch.ssp] += zip(batch.keys, batch.values, strict=True)
        return [pair for pairs in found.values() for pair in pairs]

    def table(self, stream):
        """What a changelog amounts to."""
        last = dict(self.read(stream))
        return {key: value for key, value in last.items() if value is not None}


def kafka_at(bootstrap, **producer):
    """Settings of a system named `kafka`; `producer` are librdkafka's keys, `_` standing for a dot."""
    given = {key.replace("_", "."): str(value) for key, value in producer.items()}
    return SystemSettings("kafka", "kafka", consumer={"bootstrap.servers": bootstrap}, producer=given)
