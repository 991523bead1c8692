"""A property key, declared once: its name, the kind of value it takes, its default and its meaning.

The reader, the list of known keys and the documentation all come from these declarations, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from samzapy.plugins import PluginError, split_path

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

LARGEST = 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
NAME_RULE = "only A-Za-z0-9._- up to 100 characters, and not '.' or '..'"


@dataclass(frozen=True)
class Kind(Generic[T]):
    """`allowed` is for people; `parse` gets the text without surrounding blanks and raises ValueError, whose message
    says what is allowed."""

    allowed: str
    parse: Callable[[str], T]


@dataclass(frozen=True)
class Key(Generic[T]):
    """One key. `name` may have placeholders (`stores.{store}.factory`) and may end in `.*` (everything below).
    `shown_default` replaces the default in documentation where it is computed. `otherwise` are keys that are read, in
    this order, where this one is absent: older names and defaults of a wider scope."""

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
        """The key and those read in its stead, in order; the ones with a placeholder that has no name are left out."""
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
    """The keys a module defines, in order."""
    return tuple(value for value in namespace.values() if isinstance(value, Key))


def integer(low: int | None = None, high: int = LARGEST) -> Kind[int]:
    """A whole number from `low` (None: no limit that matters) to `high`, in decimal digits."""
    lower = -LARGEST if low is None else low
    if low is None:
        allowed = "integer"
    elif high == LARGEST:
        allowed = f"integer >= {low}"
    else:
        allowed = f"integer from {low} to {high}"

    def parse(text: str) -> int:
        # The length first: int() refuses texts of thousands of digits with a message about something else.
        if not _INTEGER.fullmatch(text) or len(text) > 30 or int(text) < lower:
            raise ValueError(allowed)
        if int(text) > high:
            raise ValueError(allowed if low is not None and high != LARGEST else f"integer <= {high}")
        return int(text)

    return Kind(allowed, parse)


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
    """One of the enum's values, in any case, `_` counting as `-`."""
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


def is_name(text: str) -> bool:
    """Whether `text` may become part of a path, a topic or a transactional id."""
    return bool(_NAME.fullmatch(text)) and text not in {".", ".."}


def _name(text: str) -> str | None:
    if text and not is_name(text):
        raise ValueError(NAME_RULE)
    return text or None


NAME: Kind[str | None] = Kind(NAME_RULE, _name)


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma list, without blanks around them, empty ones left out."""
    return tuple(entry for entry in map(str.strip, text.split(",")) if entry)


LIST: Kind[tuple[str, ...]] = Kind("comma list", split_list)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """`kind`, or nothing at all."""

    def parse(text: str) -> T | None:
        return kind.parse(text) if text else None

    return Kind(kind.allowed, parse)


def class_path(
    known: Callable[[str], str | None], names: Callable[[], Iterable[str]], example: str
) -> Kind[str | None]:
    """A class path `package.module:Name`, or a name that `known` turns into one (None: not a name of ours). Nothing is
    imported."""
    allowed = f"a class like {example}"

    def parse(text: str) -> str | None:
        if not text:
            return None
        found = known(text)
        if found is not None:
            return found
        if text.startswith("org.apache.samza.") or ("." not in text and ":" not in text):
            raise ValueError(f"{allowed}, or one of {', '.join(names())}")
        try:
            split_path(text)
        except PluginError:
            raise ValueError(f"{allowed}, or one of {', '.join(names())}") from None
        return text

    return Kind(allowed, parse)
