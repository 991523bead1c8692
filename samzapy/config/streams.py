"""`streams.*`, and the older `systems.S.streams.*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samzapy.api.stream import SystemStream


@dataclass(frozen=True)
class StreamConfig:
    """How one stream is read and written. A serde of None passes bytes through. `offset_default` is oldest, upcoming
    or newest: where to start without a checkpoint (or with `reset_offset`). `properties` are topic keys for creation."""

    system_stream: SystemStream
    key_serde: str | None = None
    msg_serde: str | None = None
    offset_default: str = "upcoming"
    reset_offset: bool = False
    priority: int = -1
    bootstrap: bool = False
    bounded: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
