"""Mends what fastavro does with defaults and unions, by changes of the parsed schema and of values. So it also holds
for other readers that stand on fastavro, such as Confluent's AvroDeserializer.

Seen in fastavro 1.13:

1. A field that a message lacks gets the default as it is in the JSON of the schema: one list or dict for all messages,
   text in place of bytes, a number in place of a date. `typed_defaults` gives each default its type; lists and dicts
   are made anew.
2. A dict in a union becomes the branch with the most fields in common, the first of equal ones. So a record that was
   read from one branch may be written to another. `Branches` names the branch of such a record in the dict, under
   `-type`, which is fastavro's own convention, and refuses a value that fits several branches and names none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from numbers import Number
from typing import Any

from fastavro.read import LOGICAL_READERS

from samzapy.serializers.schemas.misfits import Misfit

#: The key of a dict with the full name of the record that it is.
BRANCH = "-type"

_RECORDS = ("record", "error")
#: By kind of schema, the kind of its values: in JSON, and in Python.
_VALUES: Mapping[str, str] = {
    **dict.fromkeys(("int", "long", "float", "double"), "number"),
    **dict.fromkeys(("bytes", "fixed"), "bytes"),
    **dict.fromkeys(("string", "enum"), "text"),
    **dict.fromkeys((*_RECORDS, "map"), "dict"),
    "array": "list",
    "boolean": "boolean",
    "null": "null",
}
_TYPES: Sequence[tuple[Any, str]] = (
    (type(None), "null"),
    (bool, "boolean"),
    (Number, "number"),
    (str, "text"),
    ((bytes, bytearray), "bytes"),
    (Mapping, "dict"),
    ((list, tuple), "list"),
)
Convert = Callable[[Any], Any]


class _Fresh(dict[str, Any]):
    """A field of a parsed schema with a default that each reader may change."""

    def __getitem__(self, key: str) -> Any:
        found = dict.__getitem__(self, key)
        return _copy(found) if key == "default" else found


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(held) for key, held in value.items()}
    return list(map(_copy, value)) if type(value) is list else value


class _Schema:
    """A parsed schema with its named types."""

    def __init__(self, schema: Any) -> None:
        self._names: Mapping[str, Any] = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
        self.all = list(self._parts(schema))

    def named(self, schema: Any) -> Any:
        """The definition, of a name as well."""
        while isinstance(schema, Mapping) and isinstance(schema["type"], (dict, list)):
            schema = schema["type"]
        return self._names.get(schema, schema) if isinstance(schema, str) else schema

    def _parts(self, schema: Any) -> Iterator[Any]:
        """Every schema in it, a named one once."""
        waiting, seen = [schema], set()
        while waiting:
            part = self.named(waiting.pop())
            if isinstance(part, list):
                waiting += part
            elif isinstance(part, Mapping):
                name = part.get("name")
                if name in seen:
                    continue
                seen |= {name} - {None}
                waiting += [part[key] for key in ("items", "values") if key in part]
                waiting += [field["type"] for field in part.get("fields", ())]
            yield part


def _kind(part: Any) -> str:
    return str(part["type"] if isinstance(part, Mapping) else part)


def _logical(part: Any) -> str | None:
    return part.get("logicalType") if isinstance(part, Mapping) else None


def name_of(part: Any) -> str:
    """The name of a branch of a union, as fastavro has it."""
    return str(part.get("name", part["type"]) if isinstance(part, Mapping) else part)


def typed_defaults(schema: Any, carried: frozenset[str] = frozenset(), *, reading: bool = True) -> Any:
    """The parsed `schema`, changed in place: its defaults have the types that a reader gives. Records of the names
    `carried` name themselves in unions. Raises ValueError for a default that does not fit. `reading`: lists and dicts
    are made anew; the writer needs none, and takes no other dicts than Python's."""
    known = _Schema(schema)
    found = [
        (fields, place, _default(known, field["type"], field["default"], carried))
        for fields in (part["fields"] for part in known.all if _kind(part) in _RECORDS)
        for place, field in enumerate(fields)
        if "default" in field
    ]
    for fields, place, value in found:
        kind = _Fresh if reading and isinstance(value, (dict, list)) else dict
        fields[place] = kind({**fields[place], "default": value})
    return schema


def _default(known: _Schema, schema: Any, given: Any, carried: frozenset[str]) -> Any:
    part = known.named(schema)
    if isinstance(part, list):
        branches = map(known.named, part)
        branch = next((each for each in branches if _takes_json(each, given)), known.named(part[0]))
        made = _default(known, branch, given, carried)
        return {**made, BRANCH: name_of(branch)} if name_of(branch) in carried else made
    kind, logical = _kind(part), _logical(part)
    if kind in _RECORDS:
        made = {
            field["name"]: _default(known, field["type"], given.get(field["name"], field.get("default")), carried)
            for field in part["fields"]
            if field["name"] in given or "default" in field
        }
        if len(made) < len(part["fields"]):
            raise ValueError(f"the default of a {part['name']} lacks a field that has none")
        return made
    if kind == "array":
        return [_default(known, part["items"], each, carried) for each in given]
    if kind == "map":
        return {key: _default(known, part["values"], each, carried) for key, each in given.items()}
    raw = (
        given.encode("latin-1")
        if kind in {"bytes", "fixed"}
        else float(given)
        if kind in {"float", "double"}
        else given
    )
    read = LOGICAL_READERS.get(f"{kind}-{logical}")
    return raw if read is None else read(raw, part, part)


def _takes_json(part: Any, given: Any) -> bool:
    value = _VALUES[_kind(part)]
    return _value_kind(given) == ("text" if value == "bytes" else value)


def _value_kind(value: Any) -> str:
    """The kind of a value of Python; a time, a UUID and the like have a kind of their own."""
    return next((kind for types, kind in _TYPES if isinstance(value, types)), "other")


class Branches:
    """The unions of a parsed schema in which a value does not say its branch."""

    def __init__(self, schema: Any) -> None:
        self._schema = known = _Schema(schema)
        self._records: dict[str, Convert] = {}
        unions = [list(map(known.named, part)) for part in known.all if isinstance(part, list)]
        alike = [each for union in unions for pair in permutations(union, 2) if self._alike(*pair) for each in pair]
        #: The full names of the records among their branches.
        self.names = frozenset(name_of(each) for each in alike if _kind(each) in _RECORDS)
        #: Names the branch of every value to write, and drops the names in dicts. Raises Misfit. None without such
        #: unions.
        self.named: Convert | None = self._of(schema) if alike else None

    def _alike(self, one: Any, other: Any) -> bool:
        """Whether a value that was read from one branch fits the other one as well."""
        kinds = _kind(one), _kind(other)
        if kinds == ("enum", "enum"):
            return bool({*one["symbols"]} & {*other["symbols"]})
        if kinds == ("fixed", "fixed"):
            return bool(one["size"] == other["size"])
        if kinds[0] not in _RECORDS or _VALUES.get(kinds[1]) != "dict":
            return False
        if kinds[1] == "map":
            return all(self._kinds(field["type"]) & self._kinds(other["values"]) for field in one["fields"])
        fields, others = ({field["name"]: field for field in each["fields"]} for each in (one, other))
        return (
            all(
                self._kinds(fields[name]["type"]) & self._kinds(field["type"]) if name in fields else "default" in field
                for name, field in others.items()
            )
            and fields.keys() <= others.keys()
        )

    def _kinds(self, schema: Any) -> set[str]:
        """The kinds of the values of a schema."""
        part = self._schema.named(schema)
        if isinstance(part, list):
            return set().union(*map(self._kinds, part))
        return {_VALUES[_kind(part)], *(("other", "number") if _logical(part) else ())}

    def _of(self, schema: Any) -> Convert:
        part = self._schema.named(schema)
        if isinstance(part, list):
            return self._union(list(map(self._schema.named, part)))
        kind = _kind(part)
        if kind in _RECORDS:
            return self._record(part)
        if kind == "array":
            item = self._of(part["items"])
            return lambda value: list(map(item, value)) if isinstance(value, (list, tuple)) else value
        if kind == "map":
            item = self._of(part["values"])
            return lambda value: (
                {key: item(held) for key, held in value.items()} if isinstance(value, Mapping) else value
            )
        return lambda value: value

    def _record(self, part: Mapping[str, Any]) -> Convert:
        name = part["name"]
        if name in self._records:
            return self._records[name]
        fields: dict[str, Convert] = {}

        def convert(value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            if value.get(BRANCH, name) != name:
                raise Misfit(name, value)
            made = {}
            for key, held in value.items():
                if key != BRANCH:
                    made[key] = _within(f".{key}", fields[key], held) if key in fields else held
            return made

        self._records[name] = convert
        fields.update((field["name"], self._of(field["type"])) for field in part["fields"])
        return convert

    def _union(self, branches: Sequence[Any]) -> Convert:
        by_name = {name_of(branch): (branch, self._of(branch)) for branch in branches}

        def convert(value: Any) -> Any:
            if type(value) is tuple and len(value) == 2 and value[0] in by_name:
                return value[0], by_name[value[0]][1](value[1])
            if isinstance(value, Mapping) and BRANCH in value:
                if value[BRANCH] not in by_name:
                    raise Misfit(f"a branch of {', '.join(by_name)}", value)
                return value[BRANCH], by_name[value[BRANCH]][1](value)
            fitting = [name for name, (branch, _) in by_name.items() if self._fits(branch, value)]
            if len(fitting) > 1:
                way = (
                    f"the dict with its branch as {BRANCH!r}"
                    if isinstance(value, Mapping)
                    else "a pair (branch, value)"
                )
                raise Misfit(f"{way}, one of {', '.join(fitting)}", value)
            if fitting and isinstance(value, Mapping):
                return fitting[0], by_name[fitting[0]][1](value)
            return by_name["array"][1](value) if "array" in by_name else value

        return convert

    def _fits(self, branch: Any, value: Any) -> bool:
        """Whether a value may be of a branch with which others may be confused: a dict, an enum or a fixed."""
        kind = _kind(branch)
        if kind == "enum":
            return value in branch["symbols"] if isinstance(value, str) else False
        if kind == "fixed":
            return isinstance(value, bytes) and len(value) == branch["size"]
        if not isinstance(value, Mapping):
            return False
        if kind == "map":
            return all(_value_kind(held) in self._kinds(branch["values"]) for held in value.values())
        if kind not in _RECORDS:
            return False
        fields = {field["name"]: field for field in branch["fields"]}
        return value.keys() <= fields.keys() and all(
            _value_kind(value[name]) in self._kinds(field["type"]) if name in value else "default" in field
            for name, field in fields.items()
        )


def _within(step: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except Misfit as found:
        found.path.append(step)
        raise


def with_branches(value: Any, names: frozenset[str]) -> Any:
    """A value that was read with `return_record_name`: dicts in place of the pairs (name, record), of which the records
    of these names have their name under `-type`."""
    if type(value) is tuple:
        name, value = value
        if name in names:
            value[BRANCH] = name
    if type(value) is dict:
        for key, held in value.items():
            if type(held) in _CONTAINERS:
                value[key] = with_branches(held, names)
    elif type(value) is list:
        value = [with_branches(held, names) for held in value]
    return value


_CONTAINERS = frozenset({dict, list, tuple})
