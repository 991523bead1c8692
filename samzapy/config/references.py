"""`${env:NAME}` and `${other.key}` in values; `$${` is a literal `${`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from samzapy.config.secrets import is_secret
from samzapy.errors import ConfigProblem

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


class _Unresolved(Exception):
    """Carries the sentence that says why."""


class References:
    """The values of a flat configuration with every reference replaced.

    `values` holds what could be resolved; `problems` says what could not; `broken` are those keys; `secret` are the keys
    whose value came, over any number of steps, from a secret one.
    """

    def __init__(self, raw: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._raw, self._environ = raw, environ
        self.values: dict[str, str] = {}
        self.problems: list[ConfigProblem] = []
        self.secret = frozenset(key for key in raw if self._from_secret(key, frozenset()))
        for key in raw:
            try:
                self.values[key] = self._resolve(key, ())
            except _Unresolved as cause:
                self.problems.append(ConfigProblem(key, None, str(cause)))
        self.broken = frozenset(raw) - frozenset(self.values)

    def _resolve(self, key: str, path: tuple[str, ...]) -> str:
        if key in self.values:
            return self.values[key]
        if key in path:
            raise _Unresolved(f"recursive reference: {' -> '.join((*path[path.index(key) :], key))}")
        return _REFERENCE.sub(lambda match: self._replacement(match, (*path, key)), self._raw[key])

    def _replacement(self, match: re.Match[str], path: tuple[str, ...]) -> str:
        name = match[1]
        if name is None:
            return "${"
        scheme, colon, variable = name.partition(":")
        if colon and scheme == "env":
            found = self._environ.get(variable)
            if found is None:
                raise _Unresolved(f"variable {variable} not set")
            return found.strip()
        if colon or not name:
            raise _Unresolved(f"reference {match[0]}: only ${{env:NAME}} and ${{other.key}} are allowed")
        if name not in self._raw:
            raise _Unresolved(f"reference {match[0]}: key {name} not set")
        return self._resolve(name, path)

    def _from_secret(self, key: str, path: frozenset[str]) -> bool:
        raw = self._raw[key]
        if is_secret(key, raw):
            return True
        return any(name not in path and self._from_secret(name, path | {name}) for name in self._keys_in(raw))

    def _keys_in(self, raw: str) -> Iterator[str]:
        return (name for name in _REFERENCE.findall(raw) if name in self._raw)
