"""Record headers as bytes: per header the name's length, the name, the value's length, the value (both u32 LE)."""

from __future__ import annotations

from struct import Struct

from samzapy.api.envelope import Headers

_LENGTH = Struct("<I")


def encode(headers: Headers) -> bytes:
    """The headers in order; names may repeat."""
    parts: list[bytes] = []
    for name, value in headers:
        text = name.encode()
        parts += (_LENGTH.pack(len(text)), text, _LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode(data: bytes) -> Headers:
    """What `encode` was given."""
    at, fields = 0, []
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4 + length
        fields.append(data[at - length : at])
    return [(name.decode(), value) for name, value in zip(fields[::2], fields[1::2], strict=True)]
