"""The clients that the bare loops share, tuned as samzapy tunes its own."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

#: Messages a call of `consume` takes at most: few enough to stay in the processor's cache (4,000 cost 8 % more CPU).
BATCH = 500
CONSUMER = {
    "group.id": "bare",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
}
PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 1,
    "queue.buffering.max.messages": 250_000,
    "delivery.report.only.error": True,
}


def arguments(description: str, *extra: str) -> argparse.Namespace:
    """The command line every loop takes, and what it takes besides."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--input", required=True)
    for name in extra:
        parser.add_argument(name, required=True)
    return parser.parse_args()


def offsets(bootstrap: str, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """Where each partition begins and where it ends now."""
    consumer = Consumer({**CONSUMER, "bootstrap.servers": bootstrap})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    ranges = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10) for p in partitions}
    consumer.close()
    return {p: low for p, (low, _) in ranges.items()}, {p: high for p, (_, high) in ranges.items()}


def assigned_consumer(
    bootstrap: str, topic: str, positions: Mapping[int, int], settings: Mapping[str, Any] = MappingProxyType({})
) -> Consumer:
    """A consumer of these partitions from these offsets; `settings` come on top of those of all."""
    consumer = Consumer({**CONSUMER, **settings, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, partition, position) for partition, position in positions.items()])
    return consumer


def consume(consumer: Consumer, wait_s: float = 0.1) -> list[Message]:
    """What has arrived: waits for the first message only."""
    first = consumer.poll(wait_s)
    if first is None:
        return []
    messages = [first, *consumer.consume(BATCH, 0)]
    for message in messages:
        if message.error():
            raise SystemExit(str(message.error()))
    return messages


def producer(bootstrap: str) -> tuple[Producer, Callable[..., None], list[Any]]:
    """A producer, its delivery callback, and the list that the callback puts failures in."""
    failures: list[Any] = []

    def on_delivery(error: Any, _: Message) -> None:
        if error is not None:
            failures.append(error)

    return Producer({**PRODUCER, "bootstrap.servers": bootstrap}), on_delivery, failures


def flush(out: Producer, failures: list[Any]) -> None:
    """Wait for every record; end the program if one was not acknowledged."""
    if out.flush(60) or failures:
        raise SystemExit(f"records were not acknowledged: {failures[:1]}")
