"""Reads and writes keys and messages as text: the form in which people type and read them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import orjson

from samzapy.api.serde import Serde
from samzapy.serializers import as_json, decode_failure, encode_failure


def _json(text: str) -> Any:
    return orjson.loads(text)


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "long": int,
    "double": float,
    "uuid": uuid.UUID,
    "bytes": str.encode,
    "byte": str.encode,
    "bytebuffer": str.encode,
}


class Literal:
    """One serde between bytes and text: strings as they are, numbers in decimal, structured values as JSON."""

    def __init__(self, name: str, serde: Serde) -> None:
        self._name, self._serde = name, serde
        self._from_text = _FROM_TEXT.get(name, _json)

    def encode(self, text: str, where: str, part: str) -> bytes:
        """The bytes of the value that `text` spells. Raises SerdeError that names `where` and `part`."""
        try:
            return self._serde.to_bytes(self._from_text(text))
        except Exception as cause:
            raise encode_failure(self._name, where, part, text, cause) from cause

    def decode(self, data: bytes | None, where: str, part: str) -> Any:
        """The value of the bytes, None for None. Raises SerdeError that names `where` and `part`."""
        if data is None:
            return None
        try:
            return self._serde.from_bytes(data)
        except Exception as cause:
            raise decode_failure(self._name, where, part, cause) from cause


def as_text(value: object) -> str:
    """A string as it is, any other value as JSON, None as the empty text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)
