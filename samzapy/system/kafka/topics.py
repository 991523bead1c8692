"""How many partitions topics have, as the cluster's brokers know it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import UnknownPartition, UnknownStream
from samzapy.system.kafka.client import Alarms, reach

#: How long a topic may be unknown to the broker that was asked while others know it already.
_NEWS_S = 5.0
_PAUSE_S = 0.1


def partition_counts(
    client: Any, alarms: Alarms, needed: Collection[SystemStreamPartition], clock: Clock = SYSTEM_CLOCK
) -> dict[str, int]:
    """How many partitions every topic has, by name; those `needed` are there.

    Brokers learn of a new topic, or of more partitions, one after another, and any of them may be the one that is asked:
    where there are several, what is missing is asked for again for 5 s. Raises UnknownStream, UnknownPartition.
    """
    deadline = clock.monotonic() + _NEWS_S
    while True:
        cluster = reach(client, alarms, clock)
        counts = {name: len(topic.partitions) for name, topic in cluster.topics.items() if topic.partitions}
        missing = next((ssp for ssp in needed if ssp.partition >= counts.get(ssp.stream, 0)), None)
        if missing is None:
            return counts
        if len(cluster.brokers) < 2 or clock.monotonic() > deadline:  # one knows all there is to know
            if missing.stream in counts:
                raise UnknownPartition(*missing, counts[missing.stream])
            raise UnknownStream(missing.system, missing.stream, alarms.servers)
        client.poll(_PAUSE_S)
