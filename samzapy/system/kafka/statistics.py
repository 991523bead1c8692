"""Keeps the newest statistics of one librdkafka handle, and reads them when metrics are wanted.

librdkafka hands a JSON text to a callback every `statistics.interval.ms`, on the thread that polls. That thread only
keeps the text; the thread that takes a snapshot of the metrics parses it. Fields that no metric needs are skipped by
the parser, as are the partitions' of a producer, which make up most of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.clock import SYSTEM_CLOCK, Clock, Measured
from samzapy.strict_json import decode


@dataclass
class _Window:
    avg: int = 0
    p99: int = 0


@dataclass
class _Broker:
    state: str = ""
    nodeid: int = -1
    txerrs: int = 0
    rxerrs: int = 0
    txretries: int = 0
    req_timeouts: int = 0
    disconnects: int = 0
    rtt: _Window = field(default_factory=_Window)
    throttle: _Window = field(default_factory=_Window)


@dataclass
class _Partition:
    fetchq_cnt: int = 0
    fetchq_size: int = 0


@dataclass
class _Topic:
    partitions: dict[str, _Partition] = field(default_factory=dict)


@dataclass
class _Statistics:
    name: str
    type: str = ""
    tx: int = 0
    tx_bytes: int = 0
    rx_bytes: int = 0
    txmsgs: int = 0
    rxmsgs: int = 0
    msg_cnt: int = 0
    msg_size: int = 0
    brokers: dict[str, _Broker] = field(default_factory=dict)
    topics: dict[str, _Topic] = field(default_factory=dict)


def _counters(result: _Statistics) -> dict[str, float]:
    brokers = result.brokers.values()
    return {
        "requests": result.tx,
        "sent-bytes": result.tx_bytes,
        "received-bytes": result.rx_bytes,
        "messages-sent": result.txmsgs,
        "messages-received": result.rxmsgs,
        "request-errors": sum(broker.txerrs + broker.rxerrs for broker in brokers),
        "request-retries": sum(broker.txretries for broker in brokers),
        "request-timeouts": sum(broker.req_timeouts for broker in brokers),
        "disconnects": sum(broker.disconnects for broker in brokers),
    }


def _gauges(result: _Statistics) -> dict[str, float]:
    # Brokers with a number; librdkafka lists the addresses that it began with besides.
    brokers = [broker for broker in result.brokers.values() if broker.nodeid >= 0]
    partitions = [item for topic in result.topics.values() for item in topic.partitions.values()]
    return {
        "queued-messages": result.msg_cnt,
        "queued-bytes": result.msg_size,
        "fetched-messages": sum(item.fetchq_cnt for item in partitions),
        "fetched-bytes": sum(item.fetchq_size for item in partitions),
        "brokers-up": sum(broker.state == "UP" for broker in brokers),
        "round-trip-p99-us": max((broker.rtt.p99 for broker in brokers), default=0),
        "throttle-ms": max((broker.throttle.avg for broker in brokers), default=0),
    }


class ClientStatistics:
    """`note` is librdkafka's `stats_cb`. Counters go on when another handle takes the place of one that was closed.
    Gauges are left out when the statistics are old, because nobody polls the handle or it was closed."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, period_s: float = 10.0) -> None:
        self._clock = clock
        self.period_s = period_s
        """Seconds between two statistics."""
        self._newest = Measured("", 0.0)
        self._read = ""
        self._gauges: dict[str, float] = {}
        self._handle = ""
        self._before: dict[str, float] = {}
        self._counted: dict[str, float] = {}

    def note(self, text: str) -> None:
        """Keep the newest statistics."""
        self._newest = Measured(text, self._clock.monotonic())

    def metrics(self) -> Mapping[str, float]:
        """The numbers of the newest statistics by name, none before the first; one thread at a time."""
        newest = self._newest
        if newest.value != self._read:
            self._parse(newest.value)
        counters = {name: self._before.get(name, 0) + count for name, count in self._counted.items()}
        return counters | self._gauges if newest.is_known(self._clock.monotonic(), self.period_s) else counters

    def _parse(self, text: str) -> None:
        result = decode(_Statistics, text.encode())
        if result.name != self._handle:
            self._handle = result.name
            self._before = {name: self._before.get(name, 0) + count for name, count in self._counted.items()}
        self._read, self._counted, self._gauges = text, _counters(result), _gauges(result)
