"""The keys of the entries of views.

Names are ordered bytes behind a letter for the kind of entry. Each name is in UTF-8 and ends with a zero byte, which no
name may contain. So entries of one kind, and entries with the same first names, are neighbours, and a key is the prefix
of everything below it.
"""

from __future__ import annotations

from collections.abc import Sized

from samzapy.errors import StoreRefused

_END = "\0"


def key(kind: bytes, *names: str) -> bytes:
    """The key of these names. Raises StoreRefused for a name that is not a str or contains a zero character."""
    try:
        text = "".join([name + _END for name in names])
        if text.count(_END) == len(names):
            return kind + text.encode()
    except (TypeError, UnicodeEncodeError):
        pass
    wrong = next(name for name in names if not is_name(name))
    raise StoreRefused(f"expected a str without a zero character, got {wrong!r:.100}")


def names(data: bytes) -> list[str]:
    """The names of a key that was made by `key`, its kind one byte."""
    return data[1:].decode().split(_END)[:-1]


def is_name(name: object) -> bool:
    """Whether `name` can be part of a key."""
    if not isinstance(name, str) or _END in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_lengths(*columns: Sized) -> None:
    """Raise ValueError for columns of different lengths."""
    if len(lengths := set(map(len, columns))) > 1:
        raise ValueError(f"expected columns of one length, got {sorted(lengths)}")
