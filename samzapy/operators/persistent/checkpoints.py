"""Chooses the time of a task's next checkpoint, and writes a checkpoint as bytes: MessagePack, of one map.

{"format": 1, "time": 1700000010000, "inputs": {"kafka.orders[0]": 481}, "state": ...}

`inputs` are the next offsets to process at the moment it was taken. Ints beyond 64 bits are extensions of type 1, in
decimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from samzapy.api.stream import SystemStreamPartition
from samzapy.errors import RestoreError
from samzapy.strict_json import Natural, Time, convert

FORMAT = 1
_BIG_INT = 1


def next_time(last_ms: int, clock_ms: int, interval_ms: int) -> int | None:
    """The roundest multiple of the interval with last < multiple <= clock; None if there is none.

    The roundest one is divisible by the largest power of two. A task with few messages passes many multiples at once
    and cannot take a checkpoint at each. By this rule two such tasks still share checkpoint times: every 2**k-th
    multiple, as soon as neither passes so many at once. At a crash the job falls back by at most twice its longest gap
    between messages.
    """
    first, latest = last_ms // interval_ms + 1, clock_ms // interval_ms
    if latest < first:
        return None
    while (rounder := latest & (latest - 1)) >= first:
        latest = rounder
    return latest * interval_ms


@dataclass(frozen=True)
class StateCheckpoint:
    """`state` is the fold of exactly the messages before `positions`; `time_ms` is its cut."""

    time_ms: int
    positions: Mapping[SystemStreamPartition, int]
    state: Any


def encode(checkpoint: StateCheckpoint) -> bytes:
    """A checkpoint as bytes. Raises TypeError for a state that is not of plain values."""
    positions = {str(ssp): offset for ssp, offset in checkpoint.positions.items()}
    plain = {"format": FORMAT, "time": checkpoint.time_ms, "inputs": positions, "state": checkpoint.state}
    packed: bytes = msgpack.packb(plain, default=_big)
    return packed


def decode(value: bytes, where: str) -> StateCheckpoint:
    """The inverse of `encode`. Raises RestoreError, naming `where`, for anything but format 1."""
    try:
        data = msgpack.unpackb(value, use_list=False, strict_map_key=False, ext_hook=_unbig)
        if data["format"] != FORMAT:
            raise RestoreError(f"{where}: state of format {data['format']}; this version reads format {FORMAT}")
        offsets = convert(dict[str, Natural], data["inputs"])
        positions = {SystemStreamPartition.parse(text): offset for text, offset in offsets.items()}
        return StateCheckpoint(convert(Time, data["time"]), positions, data["state"])
    except (ValueError, KeyError, TypeError, RecursionError) as cause:
        raise RestoreError(f"{where}: not a state ({type(cause).__name__}: {cause}): {value[:80]!r}") from cause


def _big(value: object) -> object:
    if isinstance(value, int):
        return msgpack.ExtType(_BIG_INT, str(value).encode())
    raise TypeError(f"a checkpoint keeps plain values; the state has {type(value).__name__} (see Monoid.to_plain)")


def _unbig(code: int, data: bytes) -> int:
    if code != _BIG_INT:
        raise ValueError(f"extension type {code}")
    return int(data)
