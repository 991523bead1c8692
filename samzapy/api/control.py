"""Control messages: what the tasks of one stage tell those of the next, between the messages of an intermediate stream.

A task sends one with `collector.send_control(stream, message)`, to every partition of the stream, behind what it has sent
before. A reader's task never gets one in `process`. It hears of what all senders of a partition say together: of the
least of their watermarks, and of the end once all of them have ended. A stream is intermediate where its
`samza.intermediate` is true, which the sending and the reading job both have to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

#: The header that tells a control message from a message of the user's.
CONTROL_HEADER = "samzapy-control"


@dataclass(frozen=True)
class Watermark:
    """The sender will send nothing more with an event time before `time_ms`, milliseconds since 1970."""

    time_ms: int


@dataclass(frozen=True)
class EndOfStream:
    """The sender will send nothing more; it may begin anew in another run."""


@dataclass(frozen=True)
class Drain:
    """The sender is being drained: what it has sent is all until it is started again."""


ControlMessage: TypeAlias = Watermark | EndOfStream | Drain
