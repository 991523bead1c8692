"""Finds keys that nobody reads, and what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from samzapy.config.keys import Key, pattern

#: A key that starts otherwise is the user's own, unless it looks like a slip.
_OURS = frozenset({"app", "job", "task", "systems", "streams", "serializers", "stores", "metrics"})
_NEAR, _VERY_NEAR = 0.75, 0.85


class KnownKeys:
    """The keys that mean something in a job with these names (`known`: placeholder -> names). Everything below
    `open_prefixes` belongs to a plug-in, which alone knows."""

    def __init__(
        self, keys: Sequence[Key[Any]], known: Mapping[str, frozenset[str]], open_prefixes: Sequence[str] = ()
    ) -> None:
        names = dict.fromkeys(name for key in keys for name in (key.name, *key.otherwise))
        self._exact = [name for name in names if not name.endswith(".*")]
        self._known = known
        self._patterns = [pattern(name, known) for name in self._exact]
        self._prefixes = tuple(open_prefixes)
        self._open = [pattern(name, known) for name in names if name.endswith(".*")]

    def unknown(self, keys: Sequence[str]) -> Iterator[tuple[str, str | None]]:
        """(key, nearest known key or None) for every key that nobody reads."""
        suspects = [key for key in keys if not any(p.fullmatch(key) for p in self._patterns)]
        if not suspects:
            return
        candidates = self._candidates()
        for key in suspects:
            first = key.partition(".")[0]
            if self._is_open(key):
                continue
            near = difflib.get_close_matches(key, candidates, n=1, cutoff=_NEAR)
            nearest = near[0] if near else None
            if first in _OURS or (nearest and difflib.SequenceMatcher(None, key, nearest).ratio() >= _VERY_NEAR):
                yield key, nearest

    def _is_open(self, key: str) -> bool:
        if key.startswith(self._prefixes):
            return True
        return ".samza." not in key and any(p.fullmatch(key) for p in self._open)

    def _candidates(self) -> list[str]:
        found: list[str] = []
        for name in self._exact:
            made = [name]
            for placeholder, names in self._known.items():
                mark = f"{{{placeholder}}}"
                made = [text.replace(mark, value) for text in made for value in (names if mark in text else [""])]
            found += [text for text in made if "{" not in text]
        return found
