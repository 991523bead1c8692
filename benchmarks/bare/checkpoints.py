"""The positions of a loop, kept in a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson
from confluent_kafka import Producer

#: Seconds between two commits.
COMMIT_S = 2.0


class Checkpoints:
    """Writes one record a partition and commit."""

    def __init__(self, out: Producer, on_delivery: Callable[..., None], topic: str, job: str) -> None:
        self._out = out
        self._on_delivery = on_delivery
        self._topic = topic
        self._job = job

    def write(self, positions: Mapping[int, int], changelog: Mapping[int, int] | None = None) -> None:
        """Queue the records; they are durable after a flush."""
        for partition, position in positions.items():
            record = {"input": position, "changelog": (changelog or {}).get(partition, -1)}
            key = f"{self._job} {partition}".encode()
            self._out.produce(self._topic, orjson.dumps(record), key, on_delivery=self._on_delivery)
