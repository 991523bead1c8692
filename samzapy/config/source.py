"""The text of a job file, as Java's `.properties` grammar reads it, in UTF-8."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from samzapy.errors import ConfigError, ConfigProblem

_STORE_FACTORY = re.compile(r"stores\.(.+)\.factory")


@dataclass(frozen=True)
class Source:
    """The flat pairs as written, and what was odd about them."""

    values: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()


def read(source: Path | str | Mapping[str, str]) -> Source:
    """The pairs of a file (by path) or of a mapping; blanks around keys and values do not count.

    Raises ConfigError for a file that cannot be read or whose text is not in the grammar.
    """
    if isinstance(source, Mapping):
        return Source({str(key).strip(): str(value).strip() for key, value in source.items()})
    path = Path(source)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _unreadable(f"file not found: {path}") from None
    except OSError as cause:
        raise _unreadable(f"{path}: cannot read ({cause.strerror})") from cause
    except ValueError as cause:
        raise _unreadable(f"{str(path)!r}: cannot read ({cause})") from cause
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        raise _unreadable(f"{path}: cannot read (not UTF-8: byte 0x{data[cause.start]:02x}) line {line}") from cause
    return _pairs(path, text)


def _pairs(path: Path, text: str) -> Source:
    values: dict[str, str] = {}
    seen: dict[str, int] = {}
    warnings: list[str] = []
    problems: list[ConfigProblem] = []
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                key = element.key.strip()
                store = _STORE_FACTORY.fullmatch(key)
                if key in seen and store:
                    problems.append(
                        ConfigProblem(key, None, f"store {store[1]!r} defined twice (lines {seen[key]} and {line})")
                    )
                elif key in seen:
                    warnings.append(f"{key}: set twice in {path} (lines {seen[key]} and {line}); the last one counts")
                values[key] = element.value.strip()
                seen[key] = line
            line += _lines(element.source)
    except javaproperties.InvalidUEscapeError as cause:
        raise _unreadable(f"{path}: cannot read (bad escape {cause.escape}) line {line}") from cause
    return Source(values, tuple(warnings), tuple(problems))


def _lines(text: str) -> int:
    return len(re.findall(r"\r\n|\r|\n", text))


def _unreadable(message: str) -> ConfigError:
    return ConfigError([ConfigProblem("config", None, message)])
