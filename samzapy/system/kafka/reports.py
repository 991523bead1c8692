"""What became of the records of a producer.

Every record carries a callback, because one without fails silently. For a partition that is known when the record is
sent the callback is a dict's own `__setitem__`: librdkafka calls it with (error, message), so the dict holds the last
delivered message under None and one failed message for each kind of error, and no Python frame runs for a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Callback = Callable[[Any, Any], None]


class DeliveryReports:
    """Reports by topic and partition; `callback` and `spread_callback` are what `produce` is given."""

    __slots__ = ("_by_partition", "_last", "_spread")

    def __init__(self) -> None:
        self._by_partition: dict[tuple[str, int], dict[Any, Any]] = {}
        self._spread: dict[str, dict[tuple[int, Any], Any]] = {}
        self._last: dict[tuple[str, int], int] = {}

    def callback(self, topic: str, partition: int) -> Callback:
        """For records of one partition."""
        target = (topic, partition)
        reports = self._by_partition.get(target)
        if reports is None:
            reports = self._by_partition[target] = {}
        return reports.__setitem__

    def spread_callback(self, topic: str) -> Callback:
        """For records whose partition librdkafka chooses: known only from the report, at the price of a frame."""
        reports = self._spread.get(topic)
        if reports is None:
            reports = self._spread[topic] = {}

        def report(error: Any, message: Any) -> None:
            reports[message.partition(), error] = message

        return report

    def failures(self) -> Iterator[tuple[Any, Any]]:
        """(error, message) of records that were not acknowledged since the last `settle`."""
        for reports in self._by_partition.values():
            if len(reports) > 1 or (reports and None not in reports):
                yield from ((error, message) for error, message in reports.items() if error is not None)
        for spread in self._spread.values():
            yield from ((error, message) for (_, error), message in spread.items() if error is not None)

    def settle(self) -> None:
        """Keep the last offsets and forget the messages; after a flush without failures."""
        for target, reports in self._by_partition.items():
            if reports:
                self._last[target] = reports[None].offset()
                reports.clear()
        for topic, spread in self._spread.items():
            for (partition, _), message in spread.items():
                offset = message.offset()
                self._last[topic, partition] = max(offset, self._last.get((topic, partition), -1))
            spread.clear()

    def clear(self) -> None:
        """Forget what was reported; the last offsets of earlier flushes stay."""
        for reports in (*self._by_partition.values(), *self._spread.values()):
            reports.clear()

    def last_offset(self, topic: str, partition: int) -> int | None:
        """As of the last `settle`."""
        return self._last.get((topic, partition))
