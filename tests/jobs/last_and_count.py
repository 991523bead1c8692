"""The job of the failover tests: for each key, the last number (deleted now and then) and how many there were."""

from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.api.task import InitableTask, StreamTask

#: Numbers divisible by this delete their key's last number.
DELETES_EVERY = 20


class LastAndCount(StreamTask, InitableTask):
    """Writes two stores and sends every number on."""

    def init(self, context):
        self._last = context.get_store("last")
        self._counts = context.get_store("counts")
        system, _, stream = context.job.config["test.output"].partition(".")
        self._output = SystemStream(system, stream)

    def process(self, envelope, collector, coordinator):
        key, number = envelope.key, envelope.message
        if number % DELETES_EVERY:
            self._last.put(key, number)
        else:
            self._last.delete(key)
        self._counts.put(key, (self._counts.get(key) or 0) + 1)
        collector.send(OutgoingMessageEnvelope(self._output, number, key=key))


class Unable(LastAndCount):
    """A new version that cannot start."""

    def init(self, context):
        raise ValueError("no init")
