"""Reads the text of a job file (Java's `.properties` grammar, in UTF-8), and resolves the references in its values.

A value may contain `${env:NAME}` and `${other.key}`; `$${` is a literal `${`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from samzapy.errors import ConfigError, ConfigProblem

MASK = "********"
_BETWEEN = r"[._\-]?"
#: Parts of names, as in keys and in variables of the environment.
_SECRET_NAME = re.compile(
    r"password|passphrase|passwd|secret|token(?!iz)|credential|jaas|oauthbearer"
    rf"|connection{_BETWEEN}str|key{_BETWEEN}pem|private{_BETWEEN}key"
    rf"|(?:access|account|api|shared|sas|storage|encryption|master|signing){_BETWEEN}key"
    r"|(?<![a-z])(?:pwd|pass|dsn|sas|auth)(?![a-z])"
    r"|(?:^|\.)backup\.options\.",
    re.IGNORECASE,
)
#: Up to the last `@` of a word: a password may have some, and there is no harm in hiding a host.
_URL_PASSWORD = re.compile(r"(://[^\s:/?#@]*:)\S*@")
_PARAMETER = re.compile(
    r"((?:password|passwd|pwd|passphrase|secret|token|credential|sig|[a-z_]*key)\s*=\s*)"
    r"(?:'[^']*'|\"[^\"]*\"|[^&;\s]+)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
#: Names with a secret word in them that say where a secret is, or how it is used.
_ABOUT_A_SECRET = re.compile(
    r"[._](?:location|file|path|type|url|uri|host|endpoint|method|mechanism|algorithm|scope|audience|enabled|ttl|ms"
    r"|seconds|class)$",
    re.IGNORECASE,
)
#: Passwords that are part of a value, fewer than are masked: here a mistake refuses a job.
_URL_SECRET = re.compile(r"://[^\s:/?#@]*:(\S*)@")
_PARAMETER_SECRET = re.compile(
    r"(?:password|passwd|pwd|passphrase|secret|(?:access|account|api|shared)_?key)\s*=\s*('[^']*'|\"[^\"]*\"|[^&;\s]+)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"true|false|none|null|", re.IGNORECASE)
_OPTIONS = re.compile(r"(?:^|.*\.)backup\.options\.(.+)")


def is_secret(key: str, raw_value: str = "") -> bool:
    """Whether the value of `key` is secret, by its name or by the names that the value as written refers to."""
    return any(
        name.startswith("sensitive.") or _SECRET_NAME.search(name) for name in (key, *_REFERENCE.findall(raw_value))
    )


def literal_secrets(raw: Mapping[str, str]) -> list[str]:
    """The keys of a configuration as written that hold a secret themselves, over any number of references, and do not
    refer to a variable of the environment that has it."""
    return [key for key, value in raw.items() if _has_password(value) or (_names_a_secret(key) and _is_text(raw, key))]


def _has_password(value: str) -> bool:
    bare = _REFERENCE.sub("", value)
    return any(match[1].strip("'\"") for match in (*_URL_SECRET.finditer(bare), *_PARAMETER_SECRET.finditer(bare)))


def _names_a_secret(key: str) -> bool:
    if _ABOUT_A_SECRET.search(key):
        return False
    option = _OPTIONS.fullmatch(key)
    name = key if option is None else option[1]
    return key.startswith("sensitive.") or name == "key" or _SECRET_NAME.search(name) is not None


def _is_text(raw: Mapping[str, str], key: str, path: frozenset[str] = frozenset()) -> bool:
    """Whether no variable is part of the value, and it is not empty, a flag, or broken."""
    value = raw.get(key, "").replace("$${", "")
    references = _REFERENCE.findall(value)
    if key in path or any(name.startswith("env:") for name in references):
        return False
    if references:
        return all(_is_text(raw, name, path | {key}) for name in references)
    return not _PLAIN.fullmatch(value.strip())


def without_password(text: str) -> str:
    """`text` with the passwords of its URLs and connection strings masked."""
    if "://" not in text and "=" not in text:
        return text
    return _PARAMETER.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1{MASK}@", text))


class Masked(dict[str, str]):
    """A flat configuration with a `repr` that hides secrets; access by key gives the values in clear.

    `secret` are further keys to hide, which took their value from a secret one.
    """

    def __init__(self, values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> None:
        super().__init__(values)
        self.secret = secret

    def shown(self) -> dict[str, str]:
        """All pairs, with secrets replaced by `********`."""
        return {
            key: MASK if key in self.secret or is_secret(key, value) else without_password(value)
            for key, value in self.items()
        }

    def __repr__(self) -> str:
        return repr(self.shown())

    def __reduce__(self) -> tuple[type[Masked], tuple[dict[str, str], frozenset[str]]]:
        return type(self), (dict(self), self.secret)


#: A `=` or `:` that ends the key.
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*[=:]")


@dataclass(frozen=True)
class Source:
    """The flat pairs as written, with the warnings and problems found while reading."""

    values: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()


def read(source: Path | str | Mapping[str, str], *, strict: bool = False) -> Source:
    """Read the pairs of a file (by path) or of a mapping, without the blanks around keys and values.

    1. A key alone on its line is a problem. Java reads it as an empty value, which is hardly ever intended.
    2. A key that is set twice is a warning, or a problem if `strict`.

    Raises ConfigError for a file that cannot be read or is not in the grammar.
    """
    if isinstance(source, Mapping):
        return Source({str(key).strip(): str(value).strip() for key, value in source.items()})
    path = Path(source)
    if path.suffix in {".py", ".yaml", ".yml", ".json"}:
        raise _unreadable(f"{path}: expected a job file of key=value lines, or a pipeline as {path.stem}:NAME")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _unreadable(f"file not found: {path}") from None
    except (OSError, ValueError) as cause:
        shown, reason = (path, cause.strerror) if isinstance(cause, OSError) else (repr(str(path)), cause)
        raise _unreadable(f"{shown}: cannot read ({reason})") from cause
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        raise _unreadable(f"{path} line {line}: expected UTF-8, got byte 0x{data[cause.start]:02x}") from cause
    return _pairs(path, text, strict=strict)


def _pairs(path: Path, text: str, *, strict: bool) -> Source:
    values: dict[str, str] = {}
    seen: dict[str, int] = {}
    warnings: list[str] = []
    problems: list[ConfigProblem] = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                key = element.key.strip()
                if key and not element.value and not _SEPARATOR.search(element.source):
                    # Often the rest of a value of several lines, which may be a secret: the text is not shown.
                    message = (
                        "expected key=value (key= for an empty value), or a backslash at the end of the line before"
                    )
                    problems.append(ConfigProblem(f"{path} line {line}", None, message))
                else:
                    if key in seen:
                        twice = ConfigProblem(key, None, f"set twice in {path} (lines {seen[key]} and {line})")
                        problems += [twice] if strict else []
                        warnings += [] if strict else [f"{twice}; the last one counts"]
                    values[key], seen[key] = element.value.strip(), line
            line += len(re.findall(r"\r\n|\r|\n", element.source))
    except javaproperties.InvalidUEscapeError as cause:
        raise _unreadable(f"{path} line {line}: expected \\uXXXX, got {cause.escape}") from cause
    return Source(values, tuple(warnings), tuple(problems))


def _unreadable(message: str) -> ConfigError:
    return ConfigError.of("config", None, message)


#: The longest chain of references. Each reference of a chain is one more level of recursion.
_DEEPEST = 100


class _Unresolved(Exception):
    """Raised with the reason why a reference cannot be resolved."""


def inlined(values: Mapping[str, str], gone: Mapping[str, str]) -> dict[str, str]:
    """`values`, with each reference to a key of `gone` replaced by that key's value as written."""

    def text(raw: str, path: tuple[str, ...]) -> str:
        return _REFERENCE.sub(lambda match: replacement(match, path), raw)

    def replacement(match: re.Match[str], path: tuple[str, ...]) -> str:
        name = match[1]
        if name not in gone or name in path or len(path) > _DEEPEST:
            return match[0]
        return text(gone[name], (*path, name))

    return {key: text(value, ()) for key, value in values.items()} if gone else dict(values)


class References:
    """The values of a flat configuration with every reference replaced.

    `values` are the resolved ones. `broken` are the keys that could not be resolved, `problems` the reasons. `secret`
    are the keys that took their value, over any number of steps, from a secret key or variable.
    """

    def __init__(self, raw: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._raw, self._environ = raw, environ
        self.values: dict[str, str] = {}
        self.problems: list[ConfigProblem] = []
        self.secret = frozenset(key for key in raw if self._from_secret(key))
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
        if len(path) > _DEEPEST:
            raise _Unresolved(f"expected a chain of at most {_DEEPEST} references, got a longer one from {path[0]}")
        return _REFERENCE.sub(lambda match: self._replacement(match, (*path, key)), self._raw[key])

    def _replacement(self, match: re.Match[str], path: tuple[str, ...]) -> str:
        name = match[1]
        if name is None:
            return "${"
        scheme, colon, variable = name.partition(":")
        if colon and scheme == "env":
            result = self._environ.get(variable)
            if result is None:
                raise _Unresolved(f"environment variable {variable} is not set")
            return result.strip()
        if colon or not name:
            raise _Unresolved(f"expected ${{env:NAME}} or ${{other.key}}, got {match[0]}")
        if name not in self._raw:
            raise _Unresolved(f"reference {match[0]}: key {name} is not set")
        return self._resolve(name, path)

    def _from_secret(self, key: str) -> bool:
        reached = {key: None}
        queue = [key]
        for name in queue:
            if is_secret(name, self._raw[name]):
                return True
            further = [
                item for item in _REFERENCE.findall(self._raw[name]) if item in self._raw and item not in reached
            ]
            reached.update(dict.fromkeys(further))
            queue += dict.fromkeys(further)
        return False
