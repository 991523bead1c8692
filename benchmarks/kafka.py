"""The broker that everything is measured on, and its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count, islice, repeat
from pathlib import Path
from secrets import token_hex

from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, StreamSpec, SystemSettings, change_columns
from samzapy.bench.events import BATCH, Events, load_events
from samzapy.config.loader import load_job
from samzapy.devkafka import DevBroker
from samzapy.errors import EnvironmentFailure, RetriableError, UnknownStream
from samzapy.system.clients import system_factory

PARTITIONS = 4
CONFIGS = Path(__file__).parent.parent / "configs" / "bench"
_CHANGELOG = {"cleanup.policy": "compact"}
#: Of a changelog that the broker's cleaner must not shorten between two runs.
NEVER_CLEANED = {**_CHANGELOG, "min.compaction.lag.ms": str(2**62)}


class MeasuredBroker(DevBroker):
    """A broker as in production: with the compiler that a development broker leaves out for a quick start."""

    jvm_options = (
        "-Xms1g",
        "-Xmx1g",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        *(option for option in DevBroker.jvm_options if not option.startswith(("-Xm", "-XX:"))),
    )


@dataclass(frozen=True)
class Kafka:
    """A broker to measure on, and a folder for what the measured programs keep."""

    bootstrap: str
    folder: Path
    token: str = field(default_factory=lambda: token_hex(3))
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def overrides(self) -> dict[str, str]:
        """The keys with which a job file of configs/bench uses this broker."""
        servers = "bootstrap.servers"
        return {f"systems.kafka.{side}.{servers}": self.bootstrap for side in ("consumer", "producer")}

    @property
    def settings(self) -> SystemSettings:
        """The broker as a system of samzapy."""
        return load_job(CONFIGS / "keyed-count.properties", self.overrides).systems["kafka"]

    def unique(self, name: str) -> str:
        """A name that nothing else on the broker has."""
        return f"{name}-{self.token}-{next(self._numbers)}"

    def create(
        self,
        name: str,
        *,
        compacted: bool = False,
        partitions: int = PARTITIONS,
        settings: Mapping[str, str] | None = None,
    ) -> str:
        """A new topic; returns its name."""
        topic = self.unique(name)
        admin = system_factory(self.settings).admin(self.settings, "benchmark")
        try:
            admin.create(StreamSpec(topic, partitions, settings or (_CHANGELOG if compacted else {})))
        finally:
            admin.close()
        return topic

    def load(self, name: str, events: Events, copies: int = 1, partitions: int = PARTITIONS) -> str:
        """A new topic with events in it, `copies` times over; returns its name."""
        topic = self.unique(name)
        self.append(topic, chain.from_iterable(repeat(events, copies)), partitions)
        return topic

    def load_evenly(self, name: str, events: Events, partitions: int = PARTITIONS) -> str:
        """A new topic with the events, each key in one partition, all partitions of nearly one length; returns its
        name.

        The keys go where the fewest events are, the most frequent ones first; a reader that waits for the slowest
        partition is not measured by that.
        """
        loads = [0] * partitions
        places: dict[bytes, int] = {}
        for key, times in Counter(key for key, _ in events).most_common():
            places[key] = loads.index(min(loads))
            loads[places[key]] += times
        topic = self.create(name, partitions=partitions)
        self.append_records(OutgoingRecord(topic, *item, places[item[0]]) for item in events)
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic that no later run needs; a busy broker may take longer for that than anybody waits."""
        admin = system_factory(self.settings).admin(self.settings, "benchmark")
        try:
            with suppress(EnvironmentFailure, RetriableError):
                admin.delete(topic)
        finally:
            admin.close()

    def append(self, topic: str, events: Iterable[tuple[bytes, bytes]], partitions: int = PARTITIONS) -> None:
        """More events in a topic of so many partitions, which is created if there is none."""
        load_events(self.settings, SystemStream("kafka", topic), events, partitions=partitions)

    def append_records(self, records: Iterable[OutgoingRecord]) -> None:
        """Records of topics that are there."""
        left, producer = iter(records), system_factory(self.settings).producer(self.settings, "benchmark")
        try:
            while batch := list(islice(left, BATCH)):
                producer.send(batch)
            producer.flush()
        finally:
            producer.close()

    def append_changes(self, topic: str, partition: int, batches: Iterable[Sequence[tuple[bytes, bytes]]]) -> None:
        """A changelog's records, in one partition."""
        producer = system_factory(self.settings).producer(self.settings, "benchmark")
        try:
            for batch in batches:
                producer.send_columns(change_columns(topic, partition, batch))
            producer.flush()
        finally:
            producer.close()

    def records(self, topic: str, partitions: int = PARTITIONS) -> int:
        """The number of offsets that a topic has given out."""
        admin = system_factory(self.settings).admin(self.settings, "benchmark")
        try:
            result = admin.offsets(SystemStreamPartition("kafka", topic, number) for number in range(partitions))
        finally:
            admin.close()
        return sum(item.upcoming for item in result.values())

    def clean(self) -> None:
        """Delete this run's topics."""
        admin = system_factory(self.settings).admin(self.settings, "benchmark")
        try:
            for topic in admin.list_streams():
                if self.token in topic:
                    # A busy broker may answer a second time, to a request that was sent again.
                    with suppress(UnknownStream):
                        admin.delete(topic)
        finally:
            admin.close()


@contextmanager
def broker(folder: Path, bootstrap: str | None) -> Iterator[Kafka]:
    """The broker at `bootstrap`, from which the run's topics are deleted afterwards, or one of our own for so long."""
    if bootstrap:
        kafka = Kafka(bootstrap, folder)
        try:
            yield kafka
        finally:
            kafka.clean()
        return
    with MeasuredBroker(folder / "kafka", tied=True) as own:
        yield Kafka(own.start(), folder)
