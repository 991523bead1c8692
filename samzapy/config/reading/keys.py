"""Declares property keys: the name, the kind of value, the default and the meaning of each.

The reader, the list of known keys and the documentation all come from these declarations, so they cannot disagree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Generic, TypeVar

from samzapy.plugins import PluginError, split_path

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

LARGEST = 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
NAME_RULE = "a name of up to 100 of the characters A-Za-z0-9._-, other than '.' and '..'"


@dataclass(frozen=True)
class Kind(Generic[T]):
    """The kind of value that a key takes.

    `allowed` describes it for an error message, after "expected ...". `parse` gets the text without surrounding blanks
    and raises a ValueError with a message of the same form.
    """

    allowed: str
    parse: Callable[[str], T]


@dataclass(frozen=True)
class Key(Generic[T]):
    """One key.

    `name` may have placeholders (`stores.{store}.factory`) and may end in `.*` (everything below). `shown_default`
    replaces the default in documentation if it is computed. `otherwise` are the keys that count if this one is absent,
    in this order: older names, and defaults of a wider scope.
    """

    name: str
    kind: Kind[T]
    default: T
    doc: str
    shown_default: str | None = None
    otherwise: tuple[str, ...] = ()

    def at(self, **names: str) -> str:
        """The key with its placeholders filled in."""
        return _PLACEHOLDER.sub(lambda match: names[match[1]], self.name)

    def places(self, **names: str) -> list[str]:
        """The key and its alternatives in `otherwise`, in order, without keys whose placeholders `names` lacks."""
        return [
            _PLACEHOLDER.sub(lambda match: names[match[1]], name)
            for name in (self.name, *self.otherwise)
            if names.keys() >= set(_PLACEHOLDER.findall(name))
        ]

    @property
    def default_text(self) -> str:
        """The default as documentation shows it; `-` for none."""
        if self.shown_default is not None:
            return self.shown_default
        default: object = self.default
        if isinstance(default, bool):
            return str(default).lower()
        value = getattr(default, "value", default)
        return "-" if value in {None, "", ()} else str(value)


def collect(namespace: Mapping[str, Any]) -> tuple[Key[Any], ...]:
    """The keys that a module declares, in order."""
    return tuple(value for value in namespace.values() if isinstance(value, Key))


def integer(low: int | None = None, high: int = LARGEST) -> Kind[int]:
    """A whole number in decimal digits, from `low` (None: unlimited in practice) to `high`."""
    lower = -LARGEST if low is None else low
    if low is None:
        allowed = "an integer"
    elif high == LARGEST:
        allowed = f"an integer >= {low}"
    else:
        allowed = f"an integer from {low} to {high}"

    def parse(text: str) -> int:
        # The length is checked first: int() refuses thousands of digits with a misleading message.
        if not _INTEGER.fullmatch(text) or len(text) > 30 or int(text) < lower:
            raise ValueError(allowed)
        if int(text) > high:
            raise ValueError(allowed if low is not None and high != LARGEST else f"an integer <= {high}")
        return int(text)

    return Kind(allowed, parse)


#: Milliseconds in each unit of a duration.
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
#: 19 digits are enough for every number of milliseconds; `int` raises for thousands of digits.
_DURATION = re.compile(r"(\d{1,19}(?:\.\d{1,19})?)\s*([a-z]+)", re.ASCII)


def in_ms(key: str, text: str) -> str:
    """The value of a key. For a key that ends in `.ms`, a duration with its unit (500ms, 1.5s, 10m or 10min, 2h, 7d)
    becomes a number of milliseconds; any other value is unchanged."""
    found = _DURATION.fullmatch(text) if key.endswith(".ms") else None
    unit = None if found is None else _UNITS.get(found[2])
    if found is None or unit is None:
        return text
    milliseconds = Decimal(found[1]) * unit
    return str(int(milliseconds)) if milliseconds == int(milliseconds) else text


def duration_hint(key: str, text: str) -> str:
    """The likely meaning of a bad value of a `.ms` key, for the end of a message; empty if it is not a number with
    letters."""
    return " (or a duration like 500ms, 3s, 10m, 2h)" if key.endswith(".ms") and re.match(r"\d.*[a-zA-Z]", text) else ""


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in {"true", "false"}:
        raise ValueError("true or false")
    return lowered == "true"


BOOLEAN = Kind("true or false", _boolean)


def choice(*values: str) -> Kind[str]:
    """One of `values`, in any case."""
    allowed = f"one of {', '.join(values)}"

    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(allowed)
        return text.lower()

    return Kind(allowed, parse)


def member(enum: type[E]) -> Kind[E]:
    """One of the values of `enum`, in any case; `_` counts as `-`."""
    allowed = f"one of {', '.join(str(m.value) for m in enum)}"

    def parse(text: str) -> E:
        try:
            return enum(text.lower().replace("_", "-"))
        except ValueError:
            raise ValueError(allowed) from None

    return Kind(allowed, parse)


def _text(text: str) -> str | None:
    return text or None


TEXT: Kind[str | None] = Kind("text", _text)


def at_home(text: str) -> str:
    """The path, with a leading `~` or `~user` replaced by the home folder. Raises ValueError for a user without one."""
    # `Path.expanduser` would also expand `./~`, a folder named `~`, because pathlib drops the `./`.
    found = os.path.expanduser(text)  # noqa: PTH111
    if found.startswith("~"):
        raise ValueError("a path, or one below the home folder of a user of this machine")
    return found


def _folder(text: str) -> str | None:
    return at_home(text) if text else None


FOLDER: Kind[str | None] = Kind("a folder", _folder)


def is_name(text: str) -> bool:
    """Whether `text` may become part of a path, a topic or a transactional id."""
    return bool(_NAME.fullmatch(text)) and text not in {".", ".."}


def _name(text: str) -> str | None:
    if text and not is_name(text):
        raise ValueError(NAME_RULE)
    return text or None


NAME: Kind[str | None] = Kind(NAME_RULE, _name)


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma list, without the blanks around them and without empty ones."""
    return tuple(entry for entry in map(str.strip, text.split(",")) if entry)


LIST: Kind[tuple[str, ...]] = Kind("a comma list", split_list)

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(entry.lower().removesuffix(".") for entry in split_list(text))
    if not all(len(host) < 254 and _HOST.fullmatch(host) for host in hosts):
        raise ValueError(HOSTS.allowed)
    return hosts


HOSTS = Kind("a comma list of names of hosts, without ports", _hosts)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """`kind`, or an empty text for None."""

    def parse(text: str) -> T | None:
        return kind.parse(text) if text else None

    return Kind(kind.allowed, parse)


def class_path(
    known: Callable[[str], str | None], names: Callable[[], Iterable[str]], example: str
) -> Kind[str | None]:
    """A class path `package.module:Name`, or a name for which `known` returns one (None: an unknown name).

    Nothing is imported.
    """
    allowed = f"a class like {example}"

    def parse(text: str) -> str | None:
        if not text:
            return None
        found = known(text)
        if found is not None:
            return found
        short = ", ".join(names())
        refused = f"{allowed}, or one of {short}" if short else allowed
        if text.startswith("org.apache.samza.") or ("." not in text and ":" not in text):
            raise ValueError(refused)
        try:
            split_path(text)
        except PluginError:
            raise ValueError(refused) from None
        return text

    return Kind(allowed, parse)
