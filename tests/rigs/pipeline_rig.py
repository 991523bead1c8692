"""A pipeline on the embedded system or on Kafka: its input and output, as plain values."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from rigs.numbered_stream import Streams

from samzapy.api.system import OutgoingRecord, StreamSpec
from samzapy.config.loader import load_job
from samzapy.container.event_time.control_messages import is_control
from samzapy.pipeline import Max, Pipeline, field


class Surroundings:
    """The streams of one system around a pipeline."""

    def __init__(self, pipeline: Pipeline, streams: Mapping[str, int], **keys: str) -> None:
        """`streams`: the partitions of each stream to create. `keys`: on top of the pipeline's."""
        self.keys = pipeline.plan.keys(keys)
        (settings,) = load_job({**self.keys, "task.class": "a:B"}).systems.values()
        self._streams = Streams(settings)
        for stream, partitions in streams.items():
            self._streams.admin.create(StreamSpec(stream, partitions, {"retention.ms": "-1"}))

    def grow(self, stream: str, partitions: int) -> None:
        """Add partitions to a stream of the embedded system."""
        self._streams.admin.grow(stream, partitions)

    def write(self, stream: str, messages: Iterable[Any], key: str | None = None) -> None:
        """Append messages in turn to each partition, with growing times. `key`: the field with the key, None for no
        key."""
        partitions = len(self._streams.partitions(stream))
        records = [
            OutgoingRecord(
                stream,
                None if key is None else message[key].encode(),
                json.dumps(message).encode(),
                number % partitions,
                timestamp=1_700_000_000_000 + number,
            )
            for number, message in enumerate(messages)
        ]
        producer = self._streams.producer()
        producer.send(records)
        producer.flush()
        producer.close()

    def read(self, stream: str) -> list[tuple[str, Any]]:
        """The committed keys and messages, without those that control the stages."""
        batches = list(self._streams.read(stream))
        headers = [each for batch in batches for each in batch.headers or [None] * len(batch.offsets)]
        pairs = [pair for batch in batches for pair in zip(batch.keys, batch.values, strict=True)]
        return [
            ((key or b"").decode(), json.loads(value))
            for (key, value), about in zip(pairs, headers, strict=True)
            if not is_control(about)
        ]

    def extent(self, stream: str) -> dict[int, tuple[int, int]]:
        """The first and the next offset of each partition."""
        offsets = self._streams.admin.offsets(self._streams.partitions(stream))
        return {ssp.partition: (found.oldest, found.upcoming) for ssp, found in offsets.items()}

    def settings(self, stream: str) -> Mapping[str, str]:
        """The settings of the topic."""
        return self._streams.admin.describe(stream).config


def totals(messages: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The newest message of each key."""
    return dict(messages)


def counting(name: str, stages: int, system: str = "shop") -> Pipeline:
    """Counts per page, and, with a third stage, the largest of those of each first letter, from `<name>-in` to
    `<name>-out`."""
    pipeline = Pipeline(name)
    counts = pipeline.stream(f"{system}.{name}-in").key_by(lambda view: view["page"]).count()
    if stages == 3:
        counts = (
            counts.changes()
            .map(lambda page, count: {"page": page, "count": count})
            .key_by(letter)
            .aggregate(most=Max(field("count")))
        )
    counts.to(f"{system}.{name}-out")
    return pipeline


def letter(row: dict[str, Any]) -> str:
    """The first letter of the page."""
    return str(row["page"])[0]
