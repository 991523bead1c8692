"""The results of windows, and the moments when they are sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from samzapy.api.collector import MessageCollector
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.operators.event_time import Duration, milliseconds

#: `final`: the window is closed, and no other result of it follows. `early`: its value at some moment. `update`: its
#: value after each added value. Of a key's sessions, an early result or an update replaces the results that it
#: overlaps.
Kind = Literal["final", "early", "update"]


class WindowResult(NamedTuple):
    """One window of one key: `start` (inclusive) and `end` (exclusive) in milliseconds since 1970.

    `time_ms` is the event time of the result: the window's last moment, or the newest event time if that is earlier.
    So it is never after the inputs.
    """

    key: str
    start: int
    end: int
    value: Any
    kind: Kind
    time_ms: int

    @property
    def message(self) -> dict[str, Any]:
        """The default output: `key`, `start`, `end`, `value` and `kind`."""
        return {"key": self.key, "start": self.start, "end": self.end, "value": self.value, "kind": self.kind}


#: The destination of results: a stream, or a function that is called with each result.
Output = SystemStream | Callable[[WindowResult, MessageCollector], object]


def sender(output: Output) -> Callable[[WindowResult, MessageCollector], object]:
    """The function that sends to an output. A stream gets each result's message, with its key, and `time_ms` as time
    stamp."""
    if not isinstance(output, SystemStream):
        return output

    def send(result: WindowResult, collector: MessageCollector) -> None:
        collector.send(OutgoingMessageEnvelope(output, result.message, key=result.key, timestamp=result.time_ms))

    return send


@dataclass(frozen=True)
class OnClose:
    """Sends each window once, when it is closed: final. Every emission does at least this."""


@dataclass(frozen=True)
class OnChange:
    """Sends a window after each value that it takes (`update`), and when it is closed."""


class Early:
    """Sends the windows that have changed, every `period` of processing time (`early`), and each when it is closed.

    A restart forgets which windows have changed. The next early result of such a window comes with its next value.
    Final results are not affected.
    """

    def __init__(self, period: Duration) -> None:
        """Raises ValueError for an invalid duration."""
        self.period_s = milliseconds(period, "period of Early", 1) / 1000


Emission = OnClose | OnChange | Early
