"""A property key: name, kind, default and meaning in one value.

Reading, checking, the list of known keys and the documentation all come from these, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from samzapy.config.kinds import Kind

T = TypeVar("T")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


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


def pattern(name: str, known: Mapping[str, frozenset[str]]) -> re.Pattern[str]:
    """A regular expression for a key's name; `known` lists what each placeholder stands for (missing: one segment)."""
    out = []
    for part in re.split(r"(\{\w+\}|\*$)", name):
        if part == "*":
            out.append(".+")
        elif part.startswith("{"):
            options = known.get(part[1:-1])
            out.append("[^.]+" if options is None else f"(?:{'|'.join(map(re.escape, sorted(options))) or '(?!)'})")
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))
