"""What comes out of windows, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from samzapy.api.collector import MessageCollector
from samzapy.api.envelope import OutgoingMessageEnvelope
from samzapy.api.stream import SystemStream
from samzapy.operators.durations import Duration, milliseconds

#: `final`: the window is closed, and nothing about it follows. `early`: what it had at some moment. `update`: what it has
#: after a value. Of a key's sessions, an early result or an update takes the place of those that it overlaps.
Kind = Literal["final", "early", "update"]


class WindowResult(NamedTuple):
    """One window of one key: `start` (inclusive) and `end` (exclusive) in milliseconds since 1970.

    `time_ms` is its event time for what comes after: the window's last moment, or the newest event time if that is
    earlier, so never in the future of its inputs.
    """

    key: str
    start: int
    end: int
    value: Any
    kind: Kind
    time_ms: int

    @property
    def message(self) -> dict[str, Any]:
        """What is sent of it by default: `key`, `start`, `end`, `value` and `kind`."""
        return {"key": self.key, "start": self.start, "end": self.end, "value": self.value, "kind": self.kind}


#: Where results go: a stream, or a function that sends (or does) what it likes with one.
Output = SystemStream | Callable[[WindowResult, MessageCollector], object]


def sender(output: Output) -> Callable[[WindowResult, MessageCollector], object]:
    """The function of an output; a stream gets each result's message, with its key and its `time_ms` as time stamp."""
    if not isinstance(output, SystemStream):
        return output

    def send(result: WindowResult, collector: MessageCollector) -> None:
        collector.send(OutgoingMessageEnvelope(output, result.message, key=result.key, timestamp=result.time_ms))

    return send


@dataclass(frozen=True)
class OnClose:
    """Each window once, when it is closed: final. Every emission does at least this."""


@dataclass(frozen=True)
class OnChange:
    """A window after each value that it takes (`update`), and when it is closed."""


class Early:
    """The windows that have changed, every `period` of processing time (`early`), and each when it is closed.

    What has changed since the last time is not kept over a restart: such a window's next early result comes with its
    next value. Final results are not touched by that.
    """

    def __init__(self, period: Duration) -> None:
        """Raises ValueError for a duration that is none."""
        self.period_s = milliseconds(period, "period of Early", 1) / 1000


Emission = OnClose | OnChange | Early
