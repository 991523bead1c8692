"""The value of a dimension as part of a key, and in order."""

from __future__ import annotations

from samzapy.errors import StoreRefused
from samzapy.storage.views.entry_keys import is_name

Value = str | int | bool | None


def to_name(value: Value, store: str) -> str:
    """The value with a letter for its type in front. Raises StoreRefused for what is no value."""
    if value is None:
        return "n"
    if type(value) is bool:
        return f"b{int(value)}"
    if type(value) is int and value.bit_length() < 256:
        return f"i{value}"
    if type(value) is str and is_name(value):
        return "s" + value
    raise StoreRefused(
        f"store '{store}': the value of a dimension is a str without a zero character, an int, a bool or None, got {value!r:.100}"
    )


def from_name(name: str) -> Value:
    """The value that `to_name` was given."""
    kind, text = name[0], name[1:]
    if kind == "n":
        return None
    if kind == "b":
        return text == "1"
    return int(text) if kind == "i" else text


def rank(value: Value) -> tuple[int, int | str]:
    """What to sort values by: None, false, true, numbers, texts."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (2, value) if isinstance(value, int) else (3, value)
