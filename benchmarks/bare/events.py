"""The event as a class, and its decoder and encoder."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct):
    """`seen` is the field that pass-through adds."""

    id: int
    user: str
    page: str
    amount: float
    at: int
    referrer: str | None
    seen: bool | None = None


decode = msgspec.json.Decoder(Event).decode
encode = msgspec.json.Encoder().encode
