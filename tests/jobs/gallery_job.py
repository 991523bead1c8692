"""A job of the gallery on the embedded system, as its file says: its inputs loaded, the job run, its streams and stores
read."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from rigs.numbered_stream import Streams

from samzapy.api.system import StreamSpec
from samzapy.config.loader import load_job
from samzapy.examples.flights.load import PARTITIONS, load
from samzapy.examples.gallery.load import inputs_of
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

CONFIGS = Path(__file__).parents[2] / "configs"


class Message(NamedTuple):
    """One record of a stream."""

    key: str
    value: Any
    time_ms: int


class GalleryJob:
    """The job of `configs/NAME.properties`, with everything that it writes in `folder`. `outputs` are made for it."""

    def __init__(self, folder, name, *outputs):
        self.file = CONFIGS / f"{name}.properties"
        self.keys = {
            "systems.events.path": str(folder / "local.db"),
            "job.logged.store.base.dir": str(folder / "state"),
            "job.log.dir": str(folder / "logs"),
        }
        self.config = load_job(self.file, self.keys, strict=True)
        self._streams = Streams(self.config.systems["events"])
        for stream in outputs:
            self._streams.admin.create(StreamSpec(stream, PARTITIONS))

    def load(self):
        """Write the inputs; returns how many messages they have."""
        return load(self.config, inputs_of(self.config.name))

    def run(self, **keys):
        """To the ends of the inputs; returns how many messages were processed."""
        job = load_job(self.file, self.keys | keys)
        return LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed

    def partitions(self, stream):
        """The committed messages of each partition, in order."""
        found = [[] for _ in self._streams.partitions(stream)]
        for batch in self._streams.read(stream):
            for key, value, time_ms in zip(batch.keys, batch.values, batch.timestamps, strict=True):
                message = Message(key.decode(), None if value is None else json.loads(value), time_ms)
                found[batch.ssp.partition].append(message)
        return found

    def read(self, stream):
        """The committed messages, one partition after the other."""
        return [message for messages in self.partitions(stream) for message in messages]

    def table(self, store):
        """The entries of a store, from its changelog."""
        changelog = self.config.stores[store].changelog.stream
        entries = [entry for table in self._streams.replay(changelog) for entry in table.items()]
        assert len(dict(entries)) == len(entries), "a key is in one partition"
        return {key.decode(): json.loads(value) for key, value in entries}
