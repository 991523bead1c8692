"""Any object as a line of JSON, for people and for programs that know no serdes."""

from __future__ import annotations

import orjson

from samzapy.errors import SerdeError


def as_json(value: object) -> str:
    """One line of JSON; bytes in hexadecimal, what JSON cannot say as its text."""
    option = orjson.OPT_NON_STR_KEYS
    try:
        return orjson.dumps(value, _other, option).decode()
    except TypeError as cause:
        raise SerdeError(f"cannot be shown as JSON ({cause})") from cause


def _other(value: object) -> str:
    return value.hex() if isinstance(value, (bytes, bytearray)) else str(value)
