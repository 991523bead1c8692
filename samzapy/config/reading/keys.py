"""Declares property keys as the fields of frozen dataclasses, and lists the kinds of values.

    @dataclass(frozen=True, kw_only=True)
    class TaskConfig:
        window_ms: int = key("task.window.ms", integer(), -1)
        "Milliseconds between calls of `window`. <= 0: never."  # the field's docstring

`Reader.read(TaskConfig)` reads the values, `keys_of(TaskConfig)` lists the keys, `texts_of(TaskConfig)` has the
docstrings. `samzapy keys`, the documentation and the suggestions for misspelt keys come from these declarations.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import Enum
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Generic, TypeVar

from samzapy.config.reading.properties import MASK, Masked, is_secret, without_password
from samzapy.errors import ConfigProblem
from samzapy.plugins import PluginError, split_path

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=Enum)

LARGEST = 2**63 - 1
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
NAME_RULE = "a name of up to 100 of the characters A-Za-z0-9._-, other than '.' and '..'"


@dataclass(frozen=True)
class Kind(Generic[T_co]):
    """The kind of value that a key accepts.

    `allowed` describes it for an error message, after "expected ...". `parse` gets the text without surrounding blanks
    and raises a ValueError with a message of the same form. `blank`: an empty text counts as absent.
    """

    allowed: str
    parse: Callable[[str], T_co]
    blank: bool = False


@dataclass(frozen=True)
class Key(Generic[T_co]):
    """One key.

    `name` may have placeholders (`stores.{store}.factory`) and may end in `.*` (everything below). `shown_default`
    replaces the default in documentation if it is computed. `otherwise` are the keys that count if this one is absent,
    in this order: older names, and defaults of a wider scope. `example`: a valid value of a required key. `leaves`: the
    rests of the keys below a name that ends in `.*`, empty if there may be any.
    """

    name: str
    kind: Kind[T_co]
    default: T_co
    shown_default: str | None = None
    otherwise: tuple[str, ...] = ()
    example: str | None = None
    leaves: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a file may have for it."""
        own = [self.name.removesuffix("*") + leaf for leaf in self.leaves] or [self.name]
        return (*own, *self.otherwise)

    def places(self, **names: str) -> list[str]:
        """The key and its alternatives in `otherwise`, in order, without keys whose placeholders `names` lacks."""
        known = names.keys()
        return [
            _PLACEHOLDER.sub(lambda match: names[match[1]], name)
            for name in (self.name, *self.otherwise)
            if known >= set(_PLACEHOLDER.findall(name))
        ]

    def parse(self, text: str) -> T_co:
        """The value of `text`. Raises ValueError with the allowed values."""
        return self.default if not text and (self.kind.blank or self.default is None) else self.kind.parse(text)

    @property
    def default_text(self) -> str:
        """The default as documentation shows it; `-` for none."""
        if self.shown_default is not None:
            return self.shown_default
        default: object = self.default
        if isinstance(default, bool):
            return str(default).lower()
        value = getattr(default, "value", default)
        return str(value) if value or value == 0 else "-"


def key(name: str, kind: Kind[T], default: T, *, shown: str | None = None, otherwise: Iterable[str] = ()) -> T:
    """A field of a frozen dataclass with the value of the key `name`; see `Key`."""
    return field(default=default, metadata={_KEY: Key(name, kind, default, shown, tuple(otherwise))})


def required(name: str, kind: Kind[T], example: str, *, shown: str = "required", otherwise: Iterable[str] = ()) -> T:
    """Like `key`, for a key without a default. An absent one is a problem that shows `example`, and its value is ""."""
    declared: Key[Any] = Key(name, kind, "", shown, tuple(otherwise), example)
    value: T = field(metadata={_KEY: declared})
    return value


def family(name: str, *, shown: str | None = None, leaves: Iterable[str] = ()) -> Mapping[str, str]:
    """A field with all values below the prefix `name`, which ends in `.*`, by the rest of their keys."""
    declared: Key[Any] = Key(name, TEXT, None, shown, leaves=tuple(leaves))
    return field(default_factory=dict, metadata={_KEY: declared})


_KEY = "samzapy.key"


def keys_by_field(section: type) -> Mapping[str, Key[Any]]:
    """The keys of a dataclass, by its fields."""
    return {item.name: item.metadata[_KEY] for item in fields(section) if _KEY in item.metadata}


def keys_of(*sections: type) -> tuple[Key[Any], ...]:
    """The keys of dataclasses, in order."""
    return tuple(result for section in sections for result in keys_by_field(section).values())


def texts_of(*sections: type) -> Mapping[str, str]:
    """The docstrings of the fields of dataclasses, by the names of their keys, from the source."""
    texts = {}
    for section in sections:
        (definition,) = ast.parse(inspect.getsource(section)).body
        assert isinstance(definition, ast.ClassDef)
        keys = keys_by_field(section)
        for declared, text in pairwise(definition.body):
            name = ast.unparse(declared.target) if isinstance(declared, ast.AnnAssign) else ""
            if name in keys and isinstance(text, ast.Expr):
                texts[keys[name].name] = " ".join(ast.literal_eval(text.value).split())
    return texts


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
    result = _DURATION.fullmatch(text) if key.endswith(".ms") else None
    unit = None if result is None else _UNITS.get(result[2])
    if result is None or unit is None:
        return text
    milliseconds = Decimal(result[1]) * unit
    return str(int(milliseconds)) if milliseconds == int(milliseconds) else text


def duration_hint(key: str, text: str) -> str:
    """The likely meaning of a bad value of a `.ms` key, for the end of a message; empty if it is not a number with
    letters."""
    return " (or a duration like 500ms, 3s, 10m, 2h)" if key.endswith(".ms") and re.match(r"\d.*[a-zA-Z]", text) else ""


def labels(**values: T) -> Kind[T]:
    """One of the names of `values`, in any case, for the value of that name; `_` counts as `-`."""
    return _one_of({name.replace("_", "-"): value for name, value in values.items()})


_NOTHING: Mapping[str, str] = {}


def choice(*values: str, java: Mapping[str, str] = _NOTHING) -> Kind[str]:
    """One of `values`, in any case, or the name of one of Samza's Java classes, with its value in `java`."""
    own = _one_of({value: value for value in values})
    return Kind(own.allowed, lambda text: java.get(samza_class(text)) or own.parse(text))


def samza_class(text: str) -> str:
    """The simple name of a Java class of Samza, whose packages moved between releases; empty for any other text."""
    return text.rpartition(".")[2] if text.startswith("org.apache.samza.") else ""


def member(enum: type[E]) -> Kind[E]:
    """One of the values of `enum`, in any case; `_` counts as `-`."""
    return _one_of({str(item.value): item for item in enum})


def _one_of(values: Mapping[str, T], allowed: str = "") -> Kind[T]:
    allowed = allowed or f"one of {', '.join(values)}"

    def parse(text: str) -> T:
        name = text.lower().replace("_", "-")
        if name not in values:
            raise ValueError(allowed)
        return values[name]

    return Kind(allowed, parse)


BOOLEAN = _one_of({"true": True, "false": False}, "true or false")
TEXT = Kind("text", str, blank=True)


def at_home(text: str) -> str:
    """The path, a leading `~` or `~user` being the home folder. Raises ValueError where there is none, or a NUL."""
    # `Path.expanduser` would also expand `./~`, a folder named `~`, because pathlib drops the `./`.
    result = os.path.expanduser(text)  # noqa: PTH111
    if result.startswith("~") or "\0" in result:
        raise ValueError("a path, or one below the home folder of a user of this machine")
    return result


FOLDER = Kind("a folder", lambda text: Path(at_home(text)), blank=True)


def is_name(text: str) -> bool:
    """Whether `text` may become part of a path, a topic or a transactional id."""
    return bool(_NAME.fullmatch(text)) and text not in {".", ".."}


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(NAME_RULE)
    return text


NAME = Kind(NAME_RULE, _name, blank=True)


def split_list(text: str) -> tuple[str, ...]:
    """The entries of a comma list, without the blanks around them and without empty ones."""
    return tuple(entry for entry in map(str.strip, text.split(",")) if entry)


LIST: Kind[tuple[str, ...]] = Kind("a comma list", split_list)
#: For fields that have the object of the name, or the objects of the names, in the file.
NAMED: Kind[Any] = TEXT
NAMED_LIST: Kind[Any] = LIST

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(entry.lower().removesuffix(".") for entry in split_list(text))
    if not all(len(host) < 254 and _HOST.fullmatch(host) for host in hosts):
        raise ValueError(HOSTS.allowed)
    return hosts


HOSTS = Kind("a comma list of names of hosts, without ports", _hosts)


def class_path(known: Callable[[str], str | None], names: Collection[str], example: str) -> Kind[str]:
    """A class path `package.module:Name`, or a name for which `known` returns one (None: an unknown name).

    Nothing is imported.
    """
    allowed = f"a class like {example}"

    def parse(text: str) -> str:
        result = known(text)
        if result is not None:
            return result
        refused = f"{allowed}, or one of {', '.join(names)}" if names else allowed
        if samza_class(text) or ("." not in text and ":" not in text):
            raise ValueError(refused)
        try:
            split_path(text)
        except PluginError:
            raise ValueError(refused) from None
        return text

    return Kind(allowed, parse, blank=True)


S = TypeVar("S")


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """`; did you mean X?` with the nearest of `known`, or an empty text if none is near."""
    near = difflib.get_close_matches(text, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


class Reader:
    """The values of one configuration.

    `get` notes a problem and returns the default if a text is bad, so one pass finds every problem. `secret` are the
    keys to hide in messages, `broken` the keys with a reference that could not be resolved. Values of keys that end in
    `.ms` may be durations such as 3s; `values` has them in milliseconds.
    """

    def __init__(
        self, values: Mapping[str, str], secret: frozenset[str] = frozenset(), broken: frozenset[str] = frozenset()
    ) -> None:
        self.values: Mapping[str, str] = {key: in_ms(key, value) for key, value in values.items()}
        self._sorted = sorted(self.values)
        self._order = {key: number for number, key in enumerate(self.values)}
        self.problems: list[ConfigProblem] = []
        self.warnings: list[str] = []
        self.secret, self._broken = secret, set(broken)

    def read(self, section: type[S], names: Mapping[str, str] = _NOTHING, **computed: Any) -> S:
        """An instance of the dataclass `section`: the fields in `computed`, and the values of the keys of the others.

        `names` fill the placeholders of the keys. Notes a problem for each bad value and each absent required key.
        """
        keys = keys_by_field(section).items()
        return section(**{field: self._read(key, names) for field, key in keys if field not in computed}, **computed)

    def value(self, section: type, field: str, **names: str) -> Any:
        """The value of one field of a dataclass with keys."""
        return self._read(keys_by_field(section)[field], names)

    def place(self, section: type, field: str, **names: str) -> str:
        """The key in the file that has the value of the field, or an alternative; the key itself if there is none."""
        return self._find(keys_by_field(section)[field], names)

    def is_set(self, name: str) -> bool:
        """Whether the file sets the key `name`, even if its value could not be resolved."""
        return name in self.values or name in self._broken

    def missing(self, name: str, example: str, when: str = "") -> None:
        """Note that `name` has no value, unless a problem of it is known. `when`: in which case the key is required."""
        if all(problem.key != name for problem in self.problems):
            self.problem(name, f"required{when and ' '}{when}, e.g. {example}")

    def below(self, prefix: str) -> Masked:
        """All pairs below `prefix`, by the keys without it, in the order of the file."""
        cut = len(prefix)
        # A job may have thousands of streams, and each asks for its keys.
        places = range(bisect_left(self._sorted, prefix), len(self._sorted))
        keys = takewhile(lambda key: key.startswith(prefix), map(self._sorted.__getitem__, places))
        result = {key[cut:]: self.values[key] for key in sorted(keys, key=self._order.__getitem__)}
        return Masked(result, frozenset(key[cut:] for key in self.secret if key.startswith(prefix)))

    def problem(self, key: str, message: str, value: str | None = None) -> None:
        """Note a problem, unless the key's value could not be read; a secret value is hidden."""
        shown = value if value is None else MASK if self.is_secret(key) else without_password(value)
        result = ConfigProblem(key, shown, message)
        if key not in self._broken and result not in self.problems:
            self.problems.append(result)

    def warn(self, message: str) -> None:
        """Note something odd that does not stop the job."""
        if message not in self.warnings:
            self.warnings.append(message)

    def is_secret(self, key: str) -> bool:
        """Whether the value of `key` must not be shown."""
        return key in self.secret or is_secret(key)

    def _read(self, key: Key[Any], names: Mapping[str, str]) -> Any:
        if key.name.endswith(".*"):
            return self.below(key.places(**names)[0].removesuffix("*"))
        name = self._find(key, names)
        value, text = key.default, self.values.get(name)
        if text is not None:
            try:
                value = key.parse(text)
            except ValueError as cause:
                self.problem(name, f"expected {cause}{duration_hint(name, text)}", text)
                self._broken.add(name)
        if key.example is not None and not value:
            self.missing(name, key.example)
        return value

    def _find(self, key: Key[Any], names: Mapping[str, str]) -> str:
        places = key.places(**names)
        return next(filter(self.is_set, places), places[0])
