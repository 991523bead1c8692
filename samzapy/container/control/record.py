"""A control message as a record.

header  samzapy-control: watermark | end-of-stream | drain
key     samzapy-control/<sender>     so that a compacted stream keeps every sender's last one
value   {"sender": "shop-1/Partition 3", "senders": 8, "time-ms": 1700000000000}

The sender is a task, `senders` how many tasks its job has; `time-ms` is a watermark's.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from samzapy.api.collector import CONTROL_HEADER, ControlMessage, Drain, EndOfStream, Watermark
from samzapy.api.envelope import Headers
from samzapy.errors import SerdeError

_NAMES: dict[type[ControlMessage], bytes] = {Watermark: b"watermark", EndOfStream: b"end-of-stream", Drain: b"drain"}


class SentControl(NamedTuple):
    """A control message, the task that has sent it, and the number of its job's tasks."""

    sender: str
    senders: int
    message: ControlMessage


def encode(control: SentControl) -> tuple[bytes, bytes, Headers]:
    """The key, value and headers of its record."""
    data: dict[str, object] = {"sender": control.sender, "senders": control.senders}
    if isinstance(control.message, Watermark):
        data["time-ms"] = control.message.time_ms
    key = f"{CONTROL_HEADER}/{control.sender}".encode()
    return key, json.dumps(data).encode(), [(CONTROL_HEADER, _NAMES[type(control.message)])]


def is_control(headers: Headers | None) -> bool:
    """Whether a record with these headers is a control message: its header is the first."""
    return bool(headers) and headers[0][0] == CONTROL_HEADER  # type: ignore[index]  # not None


def decode(value: bytes | None, headers: Headers, position: str) -> SentControl:
    """The inverse of `encode`. Raises SerdeError, naming the position, for anything else."""
    name = headers[0][1] or b""
    try:
        data = json.loads(value or b"")
        message: ControlMessage
        if name == _NAMES[Watermark]:
            message = Watermark(int(data["time-ms"]))
        else:
            ends: dict[bytes, ControlMessage] = {_NAMES[EndOfStream]: EndOfStream(), _NAMES[Drain]: Drain()}
            message = ends[name]
        return SentControl(str(data["sender"]), int(data["senders"]), message)
    except (ValueError, KeyError, TypeError) as cause:
        allowed = ", ".join(each.decode() for each in _NAMES.values())
        raise SerdeError(
            f"{position}: not a control message ({type(cause).__name__}: {cause}): {name[:40]!r} {(value or b'')[:80]!r}; "
            f"expected {allowed} with sender and senders"
        ) from cause
