"""What became of the records of a producer.

Every record carries a callback, because one without fails silently. The callback is a dict's own `__setitem__`:
librdkafka calls it with (error, message), so the dict holds the last delivered message under None and one failed
message for each kind of error, and no Python frame runs for a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Callback = Callable[[Any, Any], None]


class DeliveryReports:
    """Reports by topic and partition; `callback` is what `produce` is given. A partition of None stands for records
    whose partition librdkafka chooses: whether they were delivered is known, their last offsets are not."""

    __slots__ = ("_last", "_reports")

    def __init__(self) -> None:
        self._reports: dict[tuple[str, int | None], dict[Any, Any]] = {}
        self._last: dict[tuple[str, int], int] = {}

    def callback(self, topic: str, partition: int | None) -> Callback:
        """For records of one partition, or of None."""
        target = (topic, partition)
        reports = self._reports.get(target)
        if reports is None:
            reports = self._reports[target] = {}
        return reports.__setitem__

    def failures(self) -> Iterator[tuple[Any, Any]]:
        """(error, message) of records that were not acknowledged since the last `settle`."""
        for reports in self._reports.values():
            if len(reports) > 1 or (reports and None not in reports):
                yield from ((error, message) for error, message in reports.items() if error is not None)

    def settle(self) -> None:
        """Keep the last offsets and forget the messages; after a flush without failures."""
        for (topic, partition), reports in self._reports.items():
            if reports and partition is not None:
                self._last[topic, partition] = reports[None].offset()
            reports.clear()

    def clear(self) -> None:
        """Forget what was reported; the last offsets of earlier flushes stay."""
        for reports in self._reports.values():
            reports.clear()

    def last_offset(self, topic: str, partition: int) -> int | None:
        """As of the last `settle`."""
        return self._last.get((topic, partition))
