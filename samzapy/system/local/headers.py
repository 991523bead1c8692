"""Record headers as bytes: per header the name's length, the name, the value's length, the value (both u32 LE).

A null value has the length 2**32 - 1 and nothing behind it.
"""

from __future__ import annotations

from struct import Struct

from samzapy.api.envelope import Headers

_LENGTH = Struct("<I")
_NULL = 2**32 - 1


def encode(headers: Headers) -> bytes:
    """The headers in order; names may repeat."""
    parts: list[bytes] = []
    for name, value in headers:
        text = name.encode()
        parts += (_LENGTH.pack(len(text)), text)
        parts += (_LENGTH.pack(_NULL),) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def decode(data: bytes) -> Headers:
    """What `encode` was given."""
    at = 0
    fields: list[bytes | None] = []
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4
        if length == _NULL:
            fields.append(None)
            continue
        at += length
        fields.append(data[at - length : at])
    return [((name or b"").decode(), value) for name, value in zip(fields[::2], fields[1::2], strict=True)]
